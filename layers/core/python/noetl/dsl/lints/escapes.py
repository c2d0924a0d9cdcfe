"""Values whose quotes are doubled before SQL binds them.

``set: { ctx.name: "{{ name | replace(…) }}" }`` is meant for a text of SQL, where the value would be stored with both quotes. So is
``name.replace("'", "''")`` in code (refused since meaning 11, where the SQL reads what it returns).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noetl.dsl.lints.rows import code_of, place_in_code
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.program import Pipeline, Program, Step
from noetl.dsl.python_source import parse_python
from noetl.dsl.shapes_in_code import Reading

_ONE = r"""(?:"'"|'\\'')"""
_TWO = r"""(?:"''"|'\\'\\'')"""
DOUBLING = re.compile(rf"[|.]\s{{0,9}}replace\(\s{{0,9}}{_ONE}\s{{0,9}},\s{{0,9}}{_TWO}\s{{0,9}}\)")
_SQL = re.compile(r"\b(?:insert\s+into|select|update|delete\s+from|values|where)\b", re.IGNORECASE)
"""Words of SQL in a text of code, which may be what the doubling is for."""
_METHODS = frozenset({"replace", "sub"})
"""What replaces in a text: of the text itself, and of `re`."""
Key = tuple[str, str | None]
"""How the name of an entry begins and ends; None: it has no other letters."""
_TEXT = "the quotes of this value are doubled, and the SQL of this playbook binds its values: both would be stored"
_REMEDY = "leave replace() out, or mark SQL that is made of texts with raw_sql"


def check_escapes(lowering: Lowering, program: Program) -> None:
    """Report doubled quotes outside of SQL, in a playbook whose SQL only binds values.

    ``raw_sql`` anywhere may be what the doubling is for.
    """
    texts = [str(use.scalar.value) for use in lowering.uses if use.sql]
    if not texts or any("raw_sql" in text for text in texts):
        return
    for use in lowering.uses:
        for found in () if use.sql else DOUBLING.finditer(str(use.scalar.value)):
            place = use.scalar.locate(found.start())
            lowering.diagnostics.warning("sql-escaped-by-hand", _TEXT, place, hint=_REMEDY)
    for step in program.steps:
        _check_code(lowering, step)


def _check_code(lowering: Lowering, step: Step) -> None:
    """Refuse it in code whose result a text of SQL reads; warn where it may go another way."""
    tasks = step.body.tasks if isinstance(step.body, Pipeline) else ()
    for place, task in enumerate(tasks):
        code = code_of(task) if task.kind == "python" else ""
        if "replace" not in code and "sub" not in code:
            continue
        names = {task.label, *(("_prev",) if place + 1 < len(tasks) else ())}
        read = {
            entry
            for use in lowering.uses
            if use.sql
            for scope, entry in use.analysis.entries
            if (scope in names and use.frame.step == step.name)
            or (scope == step.name and place + 1 == len(tasks))
        }
        makes_sql, found = doublings(code)
        for at, key in found:
            direct = any(fits(key, entry) for entry in read)
            if makes_sql and not direct:
                continue
            refused = direct and not makes_sql and lowering.semantics > 10
            report = lowering.diagnostics.error if refused else lowering.diagnostics.warning
            report("sql-escaped-by-hand", _TEXT, place_in_code(task, at), hint=_REMEDY)


def doublings(code: str) -> tuple[bool, list[tuple[Reading, Key | None]]]:
    """Return whether code has texts of SQL, and where it doubles quotes.

    With each place goes the entry of the result that it does it for; that is None where it is not sure which one it is.
    """
    try:
        tree = parse_python(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False, []
    texts = [
        one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    docs = {
        ast.get_docstring(one, clean=False)
        for one in ast.walk(tree)
        if isinstance(one, ast.Module | ast.FunctionDef)
    }
    found = list(_in(tree, None))
    found.sort(key=lambda one: (one[0].line, one[0].column))
    return any(_SQL.search(text) for text in texts if text not in docs), found


def _in(node: ast.AST, key: Key | None) -> Iterator[tuple[Reading, Key | None]]:
    if isinstance(node, ast.Call) and _doubles(node):
        assert isinstance(node.func, ast.Attribute) and node.func.end_col_offset is not None
        column = node.func.end_col_offset - len(node.func.attr) + 1
        yield Reading("", node.func.end_lineno or node.lineno, column), key
    if isinstance(node, ast.Dict):
        for name, value in zip(node.keys, node.values, strict=True):
            yield from _in(value, key or (None if name is None else _entry(name)))
        return
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        key = _entry(node.targets[0].slice)
    for child in ast.iter_child_nodes(node):
        yield from _in(child, key)


def _entry(name: ast.expr) -> Key | None:
    """Return how the names of entries begin and end that a key of a mapping may be."""
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    texts = [str(one.value) if isinstance(one, ast.Constant) else None for one in parts]
    if None not in texts:
        return "".join(filter(None, texts)), None
    return (texts[0] or "", texts[-1] or "") if isinstance(name, ast.JoinedStr) else None


def fits(key: Key | None, entry: str) -> bool:
    """Return whether an entry may be the one for which quotes are doubled."""
    if key is None:
        return True
    begin, end = key
    return entry == begin if end is None else entry.startswith(begin) and entry.endswith(end)


def _doubles(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _METHODS:
        return False
    given = [one.value for one in call.args if isinstance(one, ast.Constant)]
    return given[:2] == ["'", "''"]
