"""Inputs that do not mean what they say.

The result of a step without a tool, a null that what leads to the step was to replace, and a database that is named in the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from noetl.dsl.lowering.context import Lowering
from noetl.dsl.nodes import Expr, LiteralNode, Map, Node
from noetl.dsl.program import Pos, Program, Step
from noetl.dsl.reachability import rules_of
from noetl.dsl.work import NextAction, ResultAction, Task, tasks_in

_CONNECTION = frozenset({"db_host", "db_user", "db_password", "db_name"})


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to a step, with the names of what it hands over."""

    step: str
    names: frozenset[str]
    pos: Pos


def check_inputs(lowering: Lowering, program: Program) -> None:
    """Report them: a null is a warning, the others are refused since meaning 8."""
    if lowering.semantics < 8:
        return
    empty = {step.name for step in program.steps if _is_empty(step)}
    ways = [way for step in program.steps for way in _ways(step)]
    for step in program.steps:
        led = [way for way in ways if way.step == step.name]
        given = frozenset[str]().union(*(way.names for way in led))
        for task in tasks_in(step.body):
            source = task.input.source.strip() if isinstance(task.input, Expr) else ""
            if isinstance(task.input, Expr) and source in empty - given - {task.label}:
                lowering.diagnostics.error(
                    "input-without-values",
                    f"the input is the result of step {source!r}, which has no tool and so no result",
                    task.input.pos,
                    hint="leave it out, or write {name: value}",
                )
            connection = sorted(_CONNECTION & _names(task.input)) if _is_scratch(task) else ()
            if connection:
                lowering.diagnostics.error(
                    "connection-in-input",
                    f"the input has `{connection[0]}`, and without `auth` postgres uses the scratch database",
                    task.pos,
                    hint="register a credential of type postgres, and name it in `auth`",
                )
            nulls = _nulls(task.input)
            for way in led:
                for name in sorted(nulls & way.names):
                    lowering.diagnostics.warning(
                        "null-argument",
                        f"step {step.name!r} is given {name!r} here, and the input of its task says that it is null",
                        way.pos,
                        hint=f'write {name}: "{{{{ args.{name} }}}}" in the input of the task',
                    )


def _is_empty(step: Step) -> bool:
    results = (action for rule in step.cases for action in rule.actions if isinstance(action, ResultAction))
    return step.body is None and step.loop is None and next(results, None) is None


def _is_scratch(task: Task) -> bool:
    return task.kind == "postgres" and "auth" not in _names(task.params)


def _ways(step: Step) -> Iterator[_Way]:
    for arc in step.arcs:
        yield _Way(arc.target, _names(arc.args), arc.pos)
    for rule in rules_of(step):
        for action in rule.actions:
            if isinstance(action, NextAction):
                yield from (_Way(target.step, _names(target.args), target.pos) for target in action.targets)


def _names(node: Node | None) -> frozenset[str]:
    if isinstance(node, Map):
        return frozenset(name for name, _ in node.entries)
    return (
        frozenset(node.value)
        if isinstance(node, LiteralNode) and isinstance(node.value, dict)
        else frozenset()
    )


def _nulls(node: Node | None) -> frozenset[str]:
    if isinstance(node, Map):
        return frozenset(
            name for name, value in node.entries if isinstance(value, LiteralNode) and value.value is None
        )
    found = node.value if isinstance(node, LiteralNode) and isinstance(node.value, dict) else {}
    return frozenset(name for name, value in found.items() if value is None)
