"""Modules of a playbook: imported from what the worker sent, without any folder."""

from __future__ import annotations

import marshal
import sys
from _frozen_importlib import ModuleSpec  # `importlib.machinery` costs more to import

TYPE_CHECKING = False
"""As checkers of types take it: ``typing`` costs more to import than all of a task's layers."""
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

MODULES = "modules/"
"""What names of their files begin with in a traceback. Libraries lie at absolute paths, so none is named like one."""
Module = tuple[str, bool, bytes | None, str]
"""(path, whether it is a package, what ``marshal`` writes of its code, text)."""


class _Finder:
    """Finder and loader of a playbook's modules, before all other finders."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        found = self.modules.get(name)
        return None if found is None else ModuleSpec(name, self, origin=found[0], is_package=found[1])  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        path, _, code, text = self.modules[module.__name__]
        made = (
            marshal.loads(code)
            if code is not None
            else compile(text, f"{MODULES}{path}", "exec", dont_inherit=True)
        )
        exec(made, module.__dict__)

    def get_source(self, name: str) -> str | None:
        """Return the text of a module, for tracebacks and ``inspect``."""
        found = self.modules.get(name)
        return None if found is None else found[3]


def install(modules: Mapping[str, Module]) -> None:
    """Let code import these modules, and no others that were installed before."""
    for finder in [one for one in sys.meta_path if isinstance(one, _Finder)]:
        sys.meta_path.remove(finder)
        for name in finder.modules:
            sys.modules.pop(name, None)
    if modules:
        sys.meta_path.insert(0, _Finder(modules))


def line_of(filename: str, line: int) -> tuple[str, str] | None:
    """Return the path of a module and the text of one of its lines.

    None for a file that is not a module.
    """
    path = filename.removeprefix(MODULES)
    for finder in sys.meta_path if path != filename else ():
        if isinstance(finder, _Finder):
            for known, _, _, text in finder.modules.values():
                lines = text.splitlines() if known == path else ()
                if 0 < line <= len(lines):
                    return path, lines[line - 1].strip()[:200]
    return None
