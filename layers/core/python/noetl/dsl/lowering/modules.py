"""Files of `modules:`: what tasks of Python import, shipped with the version."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

from noetl.domain.sizes.table import MODULES_BYTES
from noetl.domain.text.version_text import UNREADABLE, module_name
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.program import Pos
from noetl.dsl.yaml_text.tree import Scalar, Tree, items_of, text_of

ENGINE = frozenset({"noetl", "noetl_guest", "noetl_cdk", "noetl_emulator"})
_RESERVED = ENGINE | sys.stdlib_module_names


def lower_modules(lowering: Lowering, tree: Tree | None, files: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the texts of the files that ``modules`` names, by path.

    ``files``: what is shipped behind the playbook; None: nothing is, and nothing is missed.
    """
    found: dict[str, str] = {}
    names: dict[str, str] = {}
    total = 0
    for item in items_of(tree):
        if not isinstance(item, Scalar):
            continue
        path, pos = text_of(item) or "", item.pos
        name = module_name(path)
        if name is None:
            lowering.diagnostics.error(
                "module-path", f"{path[:80]!r} is not the path of a module", pos, hint=_path_hint(path)
            )
            continue
        if _collides(lowering, name, path, names, pos) or files is None:
            continue
        text = files.get(path)
        if not isinstance(text, str):
            _miss(lowering, path, text, pos)
            continue
        total += len(text.encode())
        found[path] = text
        _check_code(lowering, path, text, pos)
        if total > MODULES_BYTES.value:
            lowering.diagnostics.error(
                "modules-too-large",
                f"with {path} the modules have {total} bytes; at most {MODULES_BYTES.value} are shipped with a playbook",
                pos,
                hint="ship fewer or smaller files; data belongs into a table or a result",
            )
            break
    return found


def _path_hint(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/"):
        return "only files of the playbook's own folder are shipped with it: copy the file there, and name it such as lib/rates.py"
    return "name a Python file below the playbook's folder whose path can be imported, such as rates.py or lib/rates.py"


def _collides(lowering: Lowering, name: str, path: str, names: dict[str, str], pos: Pos) -> bool:
    """Refuse a module whose name another module has."""
    first = name.partition(".")[0]
    if first in _RESERVED:
        owner = "the engine" if first in ENGINE else "Python itself"
        message, hint = (
            f"{path} is imported as {name!r}, and {owner} has a module {first!r}",
            "rename the file",
        )
    elif name in names:
        message = f"{path} is imported as {name!r}, and so is {names[name]}"
        hint = "remove one of them" if names[name] == path else "rename one of them"
    else:
        names[name] = path
        return False
    lowering.diagnostics.error("module-name", message, pos, hint=hint)
    return True


def _miss(lowering: Lowering, path: str, found: Any, pos: Pos) -> None:
    reason = found.get(UNREADABLE) if isinstance(found, Mapping) else None
    lowering.diagnostics.error(
        "module-missing",
        f"{path} cannot be read: {reason}" if reason else f"there is no file {path} beside the playbook",
        pos,
        hint="correct the path; a client of the API sends modules behind the playbook (docs/modules.md)",
    )


def _check_code(lowering: Lowering, path: str, text: str, pos: Pos) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        line, column = getattr(error, "lineno", None) or 1, getattr(error, "offset", None) or 1
        words = getattr(error, "msg", None) or str(error) or "too deeply nested"
        lowering.diagnostics.error(
            "module-code", f"{path}:{line}:{column} is not Python: {words}", pos, hint="correct that line"
        )
