"""The budget of an execution: calls, cost and time after which no further task begins.

It is checked when a step with a tool is entered. What is under way ends as it would, and the last tasks of a playbook run in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.domain.durations import HINT, seconds_of
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.patches.scope_patches import MISSING
from noetl.dsl.program import Budget, Node, Pos, Step
from noetl.engine.decision import Decider
from noetl.engine.limits import wrong

COST = "cost"
"""The name in the context that tasks add their cost to."""


def calls_of(d: Decider, step: Step, meta: Mapping[str, Any]) -> int:
    """Return how many calls a step run counts.

    0 where there is no budget; calls that a stored result answered do not count.
    """
    if d.program.budget is None or not _calls(step):
        return 0
    made = meta.get("calls", meta.get("attempts", 0 if "cached" in meta else 1))
    return made if isinstance(made, int) else 1


def items_of(d: Decider, items: int) -> int:
    """Return how many calls the items of a loop count."""
    return 0 if d.program.budget is None else items


def used_up(d: Decider, step: Step) -> ErrorInfo | None:
    """Return why a step may not begin; None while the budget lasts. Raises TemplateError."""
    budget = d.program.budget
    if budget is None or not _calls(step) or d.state.verdict is not None:
        return None
    for name, most, used, shown in _accounts(d, budget):
        if used >= most:
            return ErrorInfo(
                f"the budget of the execution is used up: {name} {shown(used)} of {shown(most)}, before step {step.name}",
                kind="budget",
                code="budget_exceeded",
                hint="raise executor.spec.budget, or end the cycle with an arc before; a redrive begins with a new budget of calls and time",
                details={"budget": name, "used": used, "most": most},
            )
    return None


def _accounts(d: Decider, budget: Budget) -> list[tuple[str, float, float, Any]]:
    found: list[tuple[str, float, float, Any]] = []
    if budget.calls is not None:
        found.append(("calls", _number(d, budget.calls, "calls"), d.state.calls, _plain))
    if budget.cost is not None:
        found.append(("cost", _number(d, budget.cost, "cost"), _cost(d, budget), _plain))
    if budget.time is not None:
        found.append(("time", _time(d, budget.time), d.now - d.state.started, lambda value: f"{value:g} s"))
    return found


def _calls(step: Step) -> bool:
    return step.body is not None and step.body.pool != "control"


def _plain(value: float) -> str:
    return f"{value:,.10g}"


def _number(d: Decider, node: Node, name: str) -> float:
    value = d.value(node, d.scope(0))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise wrong(
            node, d.program.budget.pos if d.program.budget else Pos(), _what(name, value), "give a number"
        )
    return value


def _time(d: Decider, node: Node) -> float:
    value = d.value(node, d.scope(0))
    seconds = seconds_of(value)
    if seconds is None or seconds < 0:
        raise wrong(node, d.program.budget.pos if d.program.budget else Pos(), _what("time", value), HINT)
    return seconds


def _what(name: str, value: Any) -> str:
    return f"executor.spec.budget.{name} is {str(value)[:60]!r}"


def _cost(d: Decider, budget: Budget) -> float:
    """Return what ``ctx.cost`` holds: 0 before the first task has added to it."""
    value = d.slots.get(("ctx", COST))
    if value is MISSING or value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        assert budget.cost is not None
        raise wrong(
            budget.cost,
            budget.pos,
            f"ctx.cost is {str(value)[:60]!r}",
            "let tasks add a number: set: { ctx.cost: {{ add: … } }",
        )
    return value
