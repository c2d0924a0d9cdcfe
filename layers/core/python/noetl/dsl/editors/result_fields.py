"""The entries of results that follow from a playbook's text, for completion in editors."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from noetl.domain.kinds import KindLookup
from noetl.dsl.kind_facts import find_spec
from noetl.dsl.nodes import LiteralNode, Map, Node
from noetl.dsl.program import Step
from noetl.dsl.python_source import parse_python
from noetl.dsl.work import Task

LOOP_FIELDS = ("count", "failed", "results", "stats", "failures", "successes")
_STATS = tuple(f"stats.{name}" for name in ("total", "completed", "success", "failed"))
_DEPTH = 4
_MOST = 200
"""Fields of one step; a longer list helps no reader."""
_ENVELOPE = frozenset({"status", "data"})
_BESIDE = _ENVELOPE | {"error", "meta"}


def result_fields(step: Step, kinds: KindLookup) -> list[str]:
    """Return what may follow the name of a step in a template.

    An entry of an entry has a dot in it. They are in the order in which they are worth offering. What only an execution knows, such as the
    body of an HTTP answer, is left out.
    """
    tasks = step.body.tasks if step.body is not None else ()
    found = dict.fromkeys(name for _, name in step.result.select) if step.result is not None else {}
    if step.loop is not None:
        found |= dict.fromkeys((*LOOP_FIELDS, *_STATS))
    elif tasks:
        found |= dict.fromkeys(_of_task(tasks[-1], kinds))
    if len(tasks) > 1 and step.loop is None:
        for task in tasks:
            for label in filter(None, (task.label, task.alias)):
                found |= dict.fromkeys((label, *(f"{label}.{name}" for name in _of_task(task, kinds))))
    return list(found)[:_MOST]


def _of_task(task: Task, kinds: KindLookup) -> Iterator[str]:
    if task.result is not None:
        yield from (name for _, name in task.result.select)
    if task.part or task.nested is not None or task.choose is not None:
        return
    if task.kind == "noop":
        yield from _entries(task.input)
    elif task.kind == "python":
        yield from _of_code(_literal(task.params, "code"))
    elif task.kind == "wait":
        yield from _of_answer(task.params)
    elif not (task.kind == "http" and task.form == "event"):
        spec = find_spec(kinds, task.kind)
        yield from spec.result_fields if spec is not None else ()


def _entries(node: Node | None, prefix: str = "", depth: int = _DEPTH) -> Iterator[str]:
    """Yield the keys of a mapping, and those inside of it."""
    if isinstance(node, Map):
        for name, value in node.entries:
            yield prefix + name
            if depth > 1:
                yield from _entries(value, f"{prefix}{name}.", depth - 1)
    elif isinstance(node, LiteralNode) and isinstance(node.value, dict):
        for key, value in node.value.items():
            yield f"{prefix}{key}"
            if depth > 1:
                yield from _entries(LiteralNode(value), f"{prefix}{key}.", depth - 1)


def _of_answer(params: Node) -> Iterator[str]:
    """Yield the entries of a decision, of the body that the schema describes, or of a time."""
    if _literal(params, "approve") is True:
        yield from ("approved", "comment")
    schema = _literal(params, "schema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if isinstance(properties, dict):
        yield from map(str, properties)
    yield from (name for name in ("seconds", "until") if name in set(_entries(params, depth=1)))


def _literal(params: Node, name: str) -> object:
    """Return a parameter that is no template; None: there is none."""
    if isinstance(params, LiteralNode):
        return params.value.get(name) if isinstance(params.value, dict) else None
    value = dict(params.entries).get(name) if isinstance(params, Map) else None
    return value.value if isinstance(value, LiteralNode) else None


def _of_code(code: object) -> Iterator[str]:
    """Yield the keys of every mapping that code writes as its result."""
    try:
        tree = parse_python(code if isinstance(code, str) else "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for value in _results(tree.body):
        names = list(_keys(value))
        top = {name for name in names if "." not in name}
        if _ENVELOPE <= top <= _BESIDE:
            names = [name.removeprefix("data.") for name in names if name.startswith("data.")]
        yield from names


def _results(body: list[ast.stmt]) -> Iterator[ast.expr]:
    """Yield what is returned or assigned to ``result``.

    Functions of the code other than ``main`` are left out.
    """
    for statement in body:
        if isinstance(statement, ast.Return) and statement.value is not None:
            yield statement.value
        elif isinstance(statement, ast.Assign):
            if any(isinstance(target, ast.Name) and target.id == "result" for target in statement.targets):
                yield statement.value
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if statement.name == "main":
                yield from _results(statement.body)
        elif not isinstance(statement, ast.ClassDef):
            yield from _results(list(_inside(statement)))


def _inside(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statements in the blocks of a statement."""
    for part in ("body", "orelse", "finalbody"):
        yield from getattr(statement, part, ())
    for block in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield from block.body


def _keys(value: ast.expr, prefix: str = "", depth: int = _DEPTH) -> Iterator[str]:
    if not isinstance(value, ast.Dict) or depth == 0:
        return
    for key, inner in zip(value.keys, value.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
            yield prefix + key.value
            yield from _keys(inner, f"{prefix}{key.value}.", depth - 1)
