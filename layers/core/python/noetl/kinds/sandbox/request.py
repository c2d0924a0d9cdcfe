"""What a process for Python code is asked for: one frame a call, with the code compiled."""

from __future__ import annotations

import marshal
import re
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from noetl.domain import codec
from noetl.domain.text.version_text import module_name
from noetl.kinds.sandbox.noetl_guest.modules import MODULES, Module
from noetl.kinds.sandbox.noetl_guest.usercode import FILENAME, compile_code, names_of

LENGTH = 4
MOST_COMPILED = 128
"""Pieces of code that a worker keeps compiled."""
MOST_PLAYBOOKS = 16
"""Playbooks whose modules a worker keeps compiled."""
MOST_CHARACTERS = 16 * 1024
"""Of code that is compiled here. Longer code is rare; the process that runs it compiles it, in its own memory."""

# A warning about code belongs into the output of its task. With this filter it is an error here, so the process compiles the code again,
# and warns. `warnings.catch_warnings` is no way: it is not safe in a program of threads.
warnings.filterwarnings("ignore", category=SyntaxWarning, module=MODULES)
warnings.filterwarnings("error", category=SyntaxWarning, module=re.escape(FILENAME))


def frame_of(data: bytes) -> bytes:
    """Precede ``data`` by its length."""
    return len(data).to_bytes(LENGTH, "big") + data


def call_frame(
    call_id: str,
    code: str,
    values: Mapping[str, Any],
    seconds: float,
    modules: Mapping[str, str] | None = None,
    *,
    shared: bool = False,
    stateless: bool = False,
) -> bytes:
    """Build the frame that asks for one call.

    ``modules``: files of the playbook; None: those that the process has. ``shared``: executions share it; ``stateless``: and none may notice
    another.

    A process trusts its worker, and both are the same interpreter: so the frame is of ``marshal``. The values are JSON in it, as a template
    may make a tuple, or a key that is a number.
    """
    names = names_of(values)
    shipped = None if modules is None else _modules(tuple(modules.items()))
    call = (
        call_id,
        code,
        names,
        _compiled(code, names),
        codec.encode(values),
        seconds,
        shipped,
        shared,
        stateless,
    )
    return frame_of(marshal.dumps(call))


@lru_cache(MOST_COMPILED)
def _compiled(code: str, names: tuple[str, ...]) -> tuple[bytes, bool] | None:
    """Compile code for values of those names.

    None: the process that runs it has to, or reports why that is not possible.
    """
    if len(code) > MOST_CHARACTERS:
        return None
    try:
        compiled, returns = compile_code(code, names)
    except Exception:
        return None
    return marshal.dumps(compiled), returns


@lru_cache(MOST_PLAYBOOKS)
def _modules(files: tuple[tuple[str, str], ...]) -> dict[str, Module]:
    """Compile files of a playbook, once for all executions; folders of them are packages."""
    found: dict[str, Module] = {}
    for path, text in files:
        name = module_name(path)
        if name is None:  # the compiler refuses it
            continue
        found[name] = path, path.endswith("/__init__.py"), _compiled_module(path, text), text
    for name in list(found):
        parts = name.split(".")
        for count in range(1, len(parts)):
            package = ".".join(parts[:count])
            known = found.get(package, ("/".join(parts[:count]), True, _compiled_module("", ""), ""))
            found[package] = known[0], True, *known[2:]
    return found


def _compiled_module(path: str, text: str) -> bytes | None:
    """Compile a module.

    None: the process that imports it does, and raises why that is not possible.
    """
    try:
        return marshal.dumps(compile(text, f"{MODULES}{path}", "exec", dont_inherit=True, optimize=0))
    except Exception:
        return None
