"""The rules of the layout: small folders, no import circles, no shims, and no shipped module that nothing shipped imports."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter, defaultdict
from pathlib import Path

from source import PACKAGE, ROOT, modules, tree

MOST_MODULES = 25
PROGRAMS = {"noetl_guest", "noetl_emulator"}
"""Folders that are started as files, by an interpreter that does not know the package."""

ENTRY_POINTS = re.compile(r"noetl(?:\.\w+)+")


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {_name(path): path for path in modules()}


def _imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, for type checks too."""
    found: set[str] = set()
    package = _name(path) if path.name == "__init__.py" else _name(path).rpartition(".")[0]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{one.name}" if f"{base}.{one.name}" in NAMES else base for one in node.names}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found & NAMES.keys() - {_name(path)}


@functools.cache
def _graph() -> dict[str, set[str]]:
    """Made by the first test: at collection every process of the suite would parse the whole package."""
    return {name: _imports(path) for name, path in NAMES.items()}


def test_a_folder_has_at_most_25_modules():
    counts = Counter(path.parent for path in NAMES.values() if path.name != "__init__.py")
    assert not {str(folder.relative_to(PACKAGE)): n for folder, n in counts.items() if n > MOST_MODULES}


def _circles() -> list[set[str]]:
    """Groups of modules that reach each other (Tarjan's strongly connected components of more than one)."""
    graph = _graph()
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = set(stack[stack.index(name) :])
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(group)

    for name in graph:
        if name not in index:
            visit(name)
    return found


def test_modules_import_each_other_in_no_circle():
    assert not [sorted(group) for group in _circles()]


def test_a_shipped_module_has_a_shipped_importer():
    """Or it is named as text (an entry point, a kind of the registry), or is a program of its own in a folder that is one."""
    imported: dict[str, set[str]] = defaultdict(set)
    for name, others in _graph().items():
        for other in others:
            imported[other].add(name)
    texts = [path.read_text("utf-8") for path in NAMES.values()]
    texts += [path.read_text("utf-8") for path in (ROOT / "functions").rglob("*.py")]
    texts += [(ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "Makefile")]
    texts += [
        path.read_text("utf-8") for path in (ROOT / "infra").rglob("*.py") if "node_modules" not in path.parts
    ]
    named = {one for text in texts for one in ENTRY_POINTS.findall(text)}
    alone = {
        name
        for name, path in NAMES.items()
        if path.name not in ("__init__.py", "__main__.py")
        and not PROGRAMS & set(path.parts)
        and not imported[name]
        and not any(one == name or one.startswith(f"{name}.") for one in named)
    }
    assert not alone
