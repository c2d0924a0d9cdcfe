"""Code that reads columns of what a command of SQL gave by number: its rows were lists."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from noetl.dsl.shapes_in_code import OF_LISTS, CodeShapes, keyed, named_last, offset_of, reading_of, tree_of


def rows_by_number(code: str, given: Mapping[str, str], named: Collection[str] = ()) -> dict[int, int]:
    """Return where code reads columns of what a command of SQL gave by number.

    The start of each of the places of ``rows_of_a_command``, and that of the whole expression.
    """
    tree = tree_of(code, '"command_', "'command_")
    if tree is None:
        return {}
    known = CodeShapes(tree, given, named)
    found: dict[int, int] = {}
    for node in tree.nodes:
        over = _by_number(known, node)
        place, _ = known.origin(over) if over is not None else (None, "")
        if place is not None and keyed(place)[0] is not None:
            start = offset_of(code, place.lineno, place.col_offset)
            found[reading_of(code, known, place, plain=True).start] = start
    return found


def _by_number(known: CodeShapes, node: ast.AST) -> ast.expr | None:
    """Return the rows of a command, where a node reads their columns by number alone."""

    def is_command(one: ast.expr) -> bool:
        of = known.known(one)
        return of is not None and of[0] == "command"

    if isinstance(node, ast.For | ast.comprehension):
        over, target = node.iter, node.target
        if isinstance(over, ast.Call) and named_last(over.func) == "enumerate" and over.args:
            over = over.args[0]
            target = target.elts[-1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
        if not is_command(over):
            return None
        within = node if isinstance(node, ast.For) else known.parents[node]
        several = isinstance(target, ast.Tuple | ast.List)
        return over if several or _read_of(known, within, target) == {int} else None
    if isinstance(node, ast.Subscript):
        row = node.value
        numbered = isinstance(row, ast.Subscript) and type(keyed(row)[1]) is int
        by_name = isinstance(keyed(node)[1], str)
        return (
            row.value
            if isinstance(row, ast.Subscript) and numbered and not by_name and is_command(row.value)
            else None
        )
    if not isinstance(node, ast.Call):
        return None
    for one in node.args:
        unpacked = isinstance(one, ast.Starred) and named_last(node.func) in ("zip", "zip_longest")
        if isinstance(one, ast.Starred) and unpacked and is_command(one.value):
            return one.value
    for word in node.keywords if node.args and is_command(node.args[0]) else ():
        if word.arg == "key" and isinstance(word.value, ast.Lambda) and word.value.args.args:
            row_name = ast.Name(word.value.args.args[0].arg, ast.Store())
            return node.args[0] if _read_of(known, word.value, row_name) == {int} else None
    return None


def _read_of(known: CodeShapes, within: ast.AST, target: ast.expr) -> set[type]:
    """Return ``int`` where a row is read as a list, and ``str`` where it is read as a mapping."""
    found: set[type] = set()
    name = target.id if isinstance(target, ast.Name) else ""
    for use in ast.walk(within):
        if not isinstance(use, ast.Name) or not isinstance(use.ctx, ast.Load) or use.id != name:
            continue
        parent = known.parents[use]
        if isinstance(parent, ast.Subscript) and parent.value is use:
            found.add(str if isinstance(keyed(parent)[1], str) else int)
        elif isinstance(parent, ast.Attribute):
            found.add(str)
        elif (
            isinstance(parent, ast.Starred | ast.For | ast.comprehension)
            or (isinstance(parent, ast.Call) and named_last(parent.func) in OF_LISTS | {"map", "set"})
            or (isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple | ast.List))
        ):
            found.add(int)
    return found
