"""Results of items that are what all items gathered."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.dsl.lowering.context import Lowering
from noetl.dsl.nodes import Expr, Node
from noetl.dsl.program import Program
from noetl.dsl.work import Action, CollectAction, ResultAction, SetAction, tasks_in

_WHOLE = re.compile(r"(?:ctx\.)?(\w+)\Z")


def check_gathered(lowering: Lowering, program: Program) -> None:
    """Warn of each item of a loop whose result is a name that its loop adds to."""
    for step in program.steps:
        if step.loop is None:
            continue
        actions = [
            action for task in tasks_in((step.body,)) for rule in task.rules for action in rule.actions
        ]
        names = set(_gathered(actions))
        for action in actions:
            name = _name(action.value) if isinstance(action, ResultAction) else None
            if isinstance(action, ResultAction) and name in names:
                lowering.diagnostics.warning(
                    "result-of-all-items",
                    f"the result of an item is ctx.{name}, which also has what the items before it added",
                    getattr(action.value, "pos", step.pos),
                    hint=f"gather in iter.{name}, which begins with each item",
                )


def _gathered(actions: list[Action]) -> Iterator[str]:
    for action in actions:
        if isinstance(action, CollectAction):
            yield action.into
        elif isinstance(action, SetAction) and action.scope == "ctx" and action.op in ("append", "extend"):
            yield action.name


def _name(value: Node) -> str | None:
    """Return the name of ``ctx`` that a value is, alone."""
    found = _WHOLE.match(value.source.strip()) if isinstance(value, Expr) else None
    return found[1] if found else None
