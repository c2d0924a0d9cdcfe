"""Code that takes the result of SQL for a list of its rows."""

from __future__ import annotations

import ast
import re

from noetl.dsl.python_source import parse_python

SQL_KINDS = frozenset({"postgres", "duckdb", "snowflake"})
NO_ROWS = ("table", "copy", "result", "save")
"""Parameters with which the result of SQL is another one."""
_WHOLE = re.compile(r"(\w+)(?:\.data)?(\s*\|\s*default\(.*\))?")


def whole_result(expression: str) -> tuple[str, str] | None:
    """Return the name whose whole result it is, and the expression of its rows."""
    found = _WHOLE.fullmatch(expression.strip())
    return (found[1], f"{found[1]}.rows{found[2] or ''}") if found else None


def takes_for_list(code: str, names: set[str]) -> set[str]:
    """Return the entries of the input that ``code`` tests for a list.

    Those that it reads as a mapping, too, are left out.

    Code that puts the value into a list by itself knows other shapes, too.
    """
    try:
        tree = parse_python(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    known = {name: {name} for name in names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets = {target.id for target in node.targets if isinstance(target, ast.Name)}
            for name in names & _entries_read(node.value):
                known[name] |= targets
    lists, others = _uses(tree)
    return {name for name, words in known.items() if words & lists and not words & others}


def _entries_read(value: ast.expr) -> set[str]:
    """Return the entries that ``input_data.get('x')`` or ``input_data['x']`` reads."""
    parts = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
    return {name for part in parts if (name := _entry(part))}


def _entry(node: ast.expr) -> str:
    key: ast.expr | None = None
    owner: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        owner, key = node.func.value, node.args[0] if node.args else None
    elif isinstance(node, ast.Subscript):
        owner, key = node.value, node.slice
    if isinstance(owner, ast.Name) and owner.id == "input_data" and isinstance(key, ast.Constant):
        return key.value if isinstance(key.value, str) else ""
    return ""


def _uses(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names that are tested for a list, and those that are used in another way."""
    lists: set[str] = set()
    others: set[str] = set()
    for node in ast.walk(tree):
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
