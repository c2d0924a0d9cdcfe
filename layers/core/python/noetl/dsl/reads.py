"""Which stored names each step needs, so that the engine can load exactly those."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from noetl.domain.kinds import KindLookup
from noetl.dsl.kind_facts import find_spec
from noetl.dsl.program import (
    CollectAction,
    Expr,
    LiteralNode,
    Map,
    Nested,
    Pipeline,
    Program,
    Reads,
    Rule,
    SetAction,
    Sql,
    Step,
    Task,
    Text,
    calls_back_task,
    tasks_in,
)
from noetl.dsl.python_source import parse_python

_SCOPES = frozenset({"workload", "ctx", "vars"})
_POOLS = ("control", "io", "cpu", "python")


def with_reads(program: Program, kinds: KindLookup) -> Program:
    """Fill in what bodies, loops and steps read, and the pool of bodies.

    The fields: ``reads`` and ``pool`` of bodies, ``ordered_writes`` of loops, ``enter_reads`` and ``exit_reads`` of steps.
    """
    aliases = {step.alias: step.name for step in program.steps if step.alias}
    secrets = names_in(program.keychain)
    names = {step.name for step in program.steps}
    steps = tuple(
        _widened(_step(step, kinds, program.semantics, names), aliases, secrets) for step in program.steps
    )
    return msgspec.structs.replace(program, steps=steps)


def _widened(step: Step, aliases: dict[str, str], secrets: set[str]) -> Step:
    """Add to a step what it reads without naming it.

    Second names of results are not stored: the engine reads the step, and every other value that has that name. ``secrets``: what decides
    which credentials the keychain's entries refer to; any task may ask for one, by ``keychain`` or ``auth``.
    """
    if not aliases and not secrets:
        return step

    def renamed(reads: Reads) -> Reads:
        return _reads({*reads.names, *(aliases[name] for name in reads.names if name in aliases)})

    def widened(reads: Reads) -> Reads:
        return _reads({*renamed(reads).names, *secrets})

    bodies = {
        name: msgspec.structs.replace(body, reads=widened(body.reads))
        for name in ("body", "compensate")
        if (body := getattr(step, name)) is not None
    }
    enter = widened if step.body is not None or step.cases else renamed
    leave = widened if step.cases else renamed
    return msgspec.structs.replace(
        step, enter_reads=enter(step.enter_reads), exit_reads=leave(step.exit_reads), **bodies
    )


_AROUND = re.compile(r"\b(response|this)\b")


def _step(step: Step, kinds: KindLookup, semantics: int, steps: set[str]) -> Step:
    """Fill in a step. ``steps``: what code that may read any name reads beside whole scopes."""
    body, loop = step.body, step.loop
    iterator = {loop.iterator} if loop is not None else set()
    if body is not None:
        names = names_in(body) - iterator
        names |= _of_any_name(body, semantics, steps - iterator)
        body = _placed(body, names, kinds)
        if loop is not None and loop.mode == "sequential" and _writes(body):
            loop = msgspec.structs.replace(loop, ordered_writes=True)
    at_enter = [rule for rule in step.cases if not rule.events or "step.enter" in rule.events]
    limits = (loop.collection, loop.max_in_flight) if loop is not None else ()
    enter = names_in(
        step.admit, step.args, step.timeout, step.deadline, step.mutex, step.limits, at_enter, limits
    )
    enter |= set(body.reads.names) if body is not None else set()
    undo = step.compensate
    if undo is not None:
        undo = _placed(undo, names_in(undo) | _of_any_name(undo, semantics, steps), kinds)
    ends = (step.cases, step.sets, step.arcs, loop.vars if loop is not None else ())
    if body is not None and loop is None and semantics > 1:
        reads_around = any(_AROUND.search(node.source) for node in nodes_in(*ends))
        body = msgspec.structs.replace(body, tells_around=reads_around)
    leave = names_in(*ends)
    return msgspec.structs.replace(
        step, body=body, loop=loop, compensate=undo, enter_reads=_reads(enter), exit_reads=_reads(leave)
    )


def _of_any_name(pipeline: Pipeline, semantics: int, steps: set[str]) -> set[str]:
    """Return what code may read that uses ``context`` as a whole.

    That is whole scopes, and every result.
    """
    if semantics < 11 or not any(map(reads_any_name, tasks_in(pipeline))):
        return set()
    return steps | {f"{scope}.*" for scope in _SCOPES}


def _placed(pipeline: Pipeline, names: set[str], kinds: KindLookup) -> Pipeline:
    """Fill in what a pipeline reads, and where it runs.

    The engine cannot say where a callback goes to: a worker reads that.
    """
    calls_back = any(map(calls_back_task, tasks_in(pipeline)))
    pool = _pool(pipeline, kinds)
    if calls_back and pool == "control" and "callback" in names:
        pool = "io"
    return msgspec.structs.replace(pipeline, reads=_reads(names), pool=pool, calls_back=calls_back)


def _reads(names: Iterable[str]) -> Reads:
    return Reads(tuple(sorted(names)))


def names_in(*parts: Any) -> set[str]:
    """Return the union of ``reads`` below ``parts`` (structs, sequences of them, or None)."""
    found: set[str] = set()
    for part in parts:
        if isinstance(part, (Expr, Text, Sql)):
            found.update(part.reads)
        elif isinstance(part, Task):
            found |= _task_names(part)
        elif isinstance(part, Nested):
            found |= names_in(part.collection, part.max_in_flight) | (names_in(part.tasks) - {part.iterator})
        elif isinstance(part, (tuple, list)):
            found |= names_in(*part)
        elif isinstance(part, msgspec.Struct) and not isinstance(part, (LiteralNode, Reads)):
            found |= names_in(*(getattr(part, name) for name in part.__struct_fields__))
    return found


def nodes_in(*parts: Any) -> Iterator[Expr | Text | Sql]:
    """Yield every template below ``parts``, a task's own inputs included."""
    for part in parts:
        if isinstance(part, (Expr, Text, Sql)):
            yield part
        elif isinstance(part, (tuple, list)):
            yield from nodes_in(*part)
        elif isinstance(part, msgspec.Struct) and not isinstance(part, (LiteralNode, Reads)):
            yield from nodes_in(*(getattr(part, name) for name in part.__struct_fields__))


def _task_names(task: Task) -> set[str]:
    """Return the names a task reads from outside.

    Its own inputs are not, except by the inputs themselves.
    """
    own = _input_names(task)
    outer = names_in(task.input)
    inner = names_in(*(getattr(task, name) for name in task.__struct_fields__ if name != "input"))
    return outer | (inner - own) | unset_parameters(task)


def _input_names(task: Task) -> set[str]:
    if isinstance(task.input, Map):
        return {name for name, _ in task.input.entries}
    if isinstance(task.input, LiteralNode) and isinstance(task.input.value, dict):
        return set(task.input.value)
    return set()


def unset_parameters(task: Task) -> set[str]:
    """Return the parameters of ``def main(a, b)`` that ``input`` does not set.

    They are filled from scope by name. One that is a scope is read as a whole, since meaning 10.
    """
    text = _code(task)
    found = set(_parameters(text)) - _input_names(task) if text is not None else set()
    return found | {f"{name}.*" for name in found & _SCOPES} if task.meaning > 9 else found


def _code(task: Task) -> str | None:
    """Return the code of a ``python`` task, where it is no template."""
    if task.kind != "python":
        return None
    entries = dict(task.params.entries) if isinstance(task.params, Map) else {}
    code = entries.get("code", task.params)
    value = code.value if isinstance(code, LiteralNode) else None
    text = value.get("code") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


@lru_cache(maxsize=512)
def _parameters(code: str) -> tuple[str, ...]:
    """Return the names that code reads: parameters of ``main``, and keys of ``context``."""
    if "main" not in code and "context" not in code:
        return ()
    try:
        tree = parse_python(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found = tuple(_from_context(tree)) if "context" in code else ()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == "main":
            given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            return (*found, *(argument.arg for argument in given))
    return found


def reads_any_name(task: Task) -> bool:
    """Return whether the code of a ``python`` task may read names that its text does not show.

    It does where ``context`` is used as a whole or by a computed name, and where the code is known at run time alone.
    """
    if task.kind != "python" or "context" in _input_names(task):
        return False
    text = _code(task)
    if text is None:
        return True
    if "context" not in text:
        return False
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # The check of the code reports it.
    return sum(map(_is_context, ast.walk(tree))) > sum(1 for _ in _from_context(tree))


def _from_context(tree: ast.Module) -> Iterator[str]:
    """Yield the names in ``context["name"]`` and ``context.get("name")``."""
    for node in ast.walk(tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and _is_context(node.value):
            key = node.slice
        elif isinstance(node, ast.Call) and node.args and _is_context(getattr(node.func, "value", None)):
            key = node.args[0] if getattr(node.func, "attr", "") == "get" else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def _is_context(node: object) -> bool:
    return isinstance(node, ast.Name) and node.id == "context"


# --- pools and writes ---


def _pool(body: Pipeline, kinds: KindLookup) -> str:
    specs = [find_spec(kinds, task.kind) for task in tasks_in(body)]
    return max((spec.pool if spec is not None else "io" for spec in specs), key=_POOLS.index, default="io")


def _writes(body: Pipeline) -> bool:
    """Report whether an iteration leaves something that the next one must see."""
    if body.vars or body.vars_before or body.vars_after:
        return True
    sets = [action for task in tasks_in(body) for action in (*task.sets, *_rule_actions(task.rules))]
    if any(isinstance(action, SetAction) and action.scope != "iter" for action in sets):
        return True
    names = set(body.reads.names)
    gathered = {action.into for action in sets if isinstance(action, CollectAction)}
    return any(f"ctx.{into}" in names or into in names or "ctx.*" in names for into in gathered)


def _rule_actions(rules: tuple[Rule, ...]) -> list[Any]:
    return [action for rule in rules for action in rule.actions]
