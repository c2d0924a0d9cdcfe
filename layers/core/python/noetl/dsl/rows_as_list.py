"""Code that takes the result of SQL for a list, or that of a loop for a mapping."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from noetl.dsl.python_source import PythonTree, python_tree

SQL_KINDS = frozenset({"postgres", "duckdb", "snowflake"})
NO_ROWS = ("table", "copy", "result", "save")
"""Parameters with which the result of SQL is another one."""
RESULTS = frozenset({"result", "output.data", "outcome.result"})
"""Names of the result where a variable is set."""
_WHOLE = re.compile(r"((?:(?:vars|ctx)\.)?\w+)(?:\.data)?(\s*\|\s*default\(.*\))?")
_LOOP = re.compile(r"(\w+)(?:\s*\|\s*default\(([^(),]+)\))?")
_OF_LOOP = ("results", "stats")
_SHOWS = ("isinstance", "print", "str", "repr", "type", "bool")
"""Functions for which it makes no difference whether a value is a list."""


def whole_result(expression: str) -> tuple[str, str] | None:
    """Return the name whose whole result it is, and the expression of its rows."""
    found = _WHOLE.fullmatch(expression.strip())
    return (found[1], f"{found[1]}.rows{found[2] or ''}") if found else None


def loop_summary(expression: str) -> tuple[str, str] | None:
    """Return the loop whose result it is, and a mapping with ``results`` and ``stats``."""
    found = _LOOP.fullmatch(expression.strip())
    if found is None:
        return None
    name, other = found[1], found[2]
    summary = f"{{'results': {name}, 'stats': {name}.stats}}"
    return name, f"{summary} if {name} is defined else {other}" if other else summary


def takes_for_summary(code: str, names: set[str]) -> set[str]:
    """Return the entries of the input of which ``code`` reads ``results`` or ``stats``.

    Those that it takes for a list, too, are left out.
    """
    tree = _tree(code)
    known = _known(tree, names, _values_of)
    read = {owner for node in tree.nodes for owner in _owners(node)}
    lists = _uses(tree)[0] | {word for node in tree.nodes for word in _items_of(node)}
    return {name for name, words in known.items() if words & read and not words & lists}


def _values_of(value: ast.expr) -> set[str]:
    """Return the names whose value as a whole ``value`` may be."""
    parts = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
    return {part.id if isinstance(part, ast.Name) else _entry(part) for part in parts} - {""}


def _owners(node: ast.AST) -> set[str]:
    """Return the names whose ``results`` or ``stats`` it reads."""
    owner, key = _keyed(node)
    return _values_of(owner) if owner is not None and key in _OF_LOOP else set()


def _items_of(node: ast.AST) -> set[str]:
    """Return the names whose items it reads, or that it hands to a function."""
    values: list[ast.expr] = []
    if isinstance(node, ast.For | ast.comprehension):
        values = [node.iter]
    elif isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _SHOWS):
        values = node.args
    elif isinstance(node, ast.Subscript) and _keyed(node)[1] is None:
        values = [node.value]
    return {name for value in values for name in _values_of(value)}


def takes_for_list(code: str, names: set[str]) -> set[str]:
    """Return the entries of the input that ``code`` tests for a list.

    Those that it reads as a mapping, too, are left out.

    Code that puts the value into a list by itself knows other shapes, too.
    """
    tree = _tree(code)
    known = _known(tree, names, _entries_read)
    lists, others = _uses(tree)
    return {name for name, words in known.items() if words & lists and not words & others}


def _tree(code: str) -> PythonTree:
    """Return the tree of the code; an empty one of code that cannot be read."""
    try:
        return python_tree(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return PythonTree(ast.Module([], []))


def _known(tree: PythonTree, names: set[str], read: Callable[[ast.expr], set[str]]) -> dict[str, set[str]]:
    """Return the variables that hold each of ``names``; ``read`` names what a value is."""
    known = {name: {name} for name in names}
    for node in tree.nodes:
        if isinstance(node, ast.Assign):
            targets = {target.id for target in node.targets if isinstance(target, ast.Name)}
            for name in names & read(node.value):
                known[name] |= targets
    return known


def _entries_read(value: ast.expr) -> set[str]:
    """Return the entries that ``input_data.get('x')`` or ``input_data['x']`` reads."""
    parts = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
    return {name for part in parts if (name := _entry(part))}


def _entry(node: ast.expr) -> str:
    owner, key = _keyed(node)
    return key if key and isinstance(owner, ast.Name) and owner.id == "input_data" else ""


def _keyed(node: ast.AST) -> tuple[ast.expr | None, str | None]:
    """Return what ``x.get('key')`` and ``x['key']`` read, and the key."""
    key: ast.expr | None = None
    owner: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        owner, key = node.func.value, node.args[0] if node.args else None
    elif isinstance(node, ast.Subscript):
        owner, key = node.value, node.slice
    return owner, key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _uses(tree: PythonTree) -> tuple[set[str], set[str]]:
    """Return the names that are tested for a list, and those that are used in another way."""
    lists: set[str] = set()
    others: set[str] = set()
    for node in tree.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            if len(node.args) == 2 and isinstance(node.args[0], ast.Name):
                (lists if _only_lists(node.args[1]) else others).add(node.args[0].id)
        elif isinstance(node, ast.Attribute) and node.attr in ("get", "keys", "values", "items"):
            if isinstance(node.value, ast.Name):
                others.add(node.value.id)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                others.add(node.value.id)
        elif isinstance(node, ast.List):
            others |= {item.id for item in node.elts if isinstance(item, ast.Name)}
    return lists, others - {"input_data"}


def _only_lists(types: ast.expr) -> bool:
    among = types.elts if isinstance(types, ast.Tuple) else [types]
    return all(isinstance(one, ast.Name) and one.id in ("list", "tuple") for one in among)
