"""The budget of an execution: calls, cost and time after which no further task begins.

It is checked when a step with a tool is entered, and when a task begins again in the list of its step. What is under way ends as it
would, and the last tasks of a playbook run in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.domain.durations import HINT, seconds_of
from noetl.domain.events import LoopSummary
from noetl.domain.kinds import CONTROL_KINDS
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.outcomes.work import calls_made
from noetl.domain.patches.cost import COST
from noetl.domain.patches.scope_patches import MISSING
from noetl.domain.state import Token
from noetl.domain.text.number_text import number_text
from noetl.dsl.program import Budget, Node, Pos, RunAction, SinkAction, Step, tasks_in
from noetl.engine.decision import Decider
from noetl.engine.limits import wrong


def calls_of(d: Decider, step: Step, token: Token, meta: Mapping[str, Any]) -> int:
    """Return how many calls a step run counts that is over, and did not count so far.

    0 where there is no budget.
    """
    if d.program.budget is None or not _counts(d, step, token):
        return 0
    return max(0, calls_made(meta) - token.counted)


def calls_so_far(d: Decider, step: Step, token: Token, meta: Mapping[str, Any]) -> int:
    """Return how many calls of a turn count, after which its command continues."""
    if not _bounds(d, step) or not _counts(d, step, token):
        return 0
    made = meta.get("calls", 0)
    return max(0, made - token.counted) if isinstance(made, int) else 0


def calls_unfinished(d: Decider, step: Step, token: Token) -> int:
    """Return what a run counts whose call has no outcome: one call at the least."""
    begun = token.phase in ("body", "case", "loop") and token.counted == 0
    return int(begun and _bounds(d, step) and _counts(d, step, token))


def calls_of_items(d: Decider, step: Step, summary: LoopSummary) -> int:
    """Return how many calls the items of a loop count."""
    if d.program.budget is None:
        return 0
    return summary.calls if _bounds(d, step) else summary.done + summary.failed


def _bounds(d: Decider, step: Step) -> bool:
    return d.program.bounds(step.name, "compensate" if d.state.undoing else "body")


def used_up(d: Decider, step: Step, more: int = 0) -> ErrorInfo | None:
    """Return why a step may not begin; None while the budget lasts. Raises TemplateError.

    ``more``: calls that are not in the state yet.
    """
    budget = d.program.budget
    if budget is None or not _calls(d, step) or d.state.verdict is not None:
        return None
    for name, most, used, shown in _accounts(d, budget, more):
        if used >= most:
            return ErrorInfo(
                f"the budget of the execution is used up: {name} {shown(used)} of {shown(most)}, before step {step.name}",
                kind="budget",
                code="budget_exceeded",
                hint="raise executor.spec.budget, or end the cycle with an arc before; a redrive begins with a new budget of calls and time",
                details={"budget": name, "used": used, "most": most},
            )
    return None


def _accounts(d: Decider, budget: Budget, more: int) -> list[tuple[str, float, float, Any]]:
    found: list[tuple[str, float, float, Any]] = []
    if budget.calls is not None:
        found.append(("calls", _number(d, budget.calls, "calls"), d.state.calls + more, _plain))
    if budget.cost is not None:
        found.append(("cost", _number(d, budget.cost, "cost"), _cost(d, budget), _plain))
    if budget.time is not None:
        found.append(("time", _time(d, budget.time), d.now - d.state.started, lambda value: f"{value:g} s"))
    return found


def _calls(d: Decider, step: Step) -> bool:
    """Return whether a step calls tools: in its body or in its entries of ``case``.

    A program of before counts no entries.
    """
    return _calls_in_body(step) or _calls_in_cases(d, step)


def _counts(d: Decider, step: Step, token: Token) -> bool:
    """Return whether what a run does now calls tools: its body, or an entry."""
    return _calls_in_cases(d, step) if token.phase == "case" else _calls_in_body(step)


def _calls_in_body(step: Step) -> bool:
    return step.body is not None and step.body.pool != "control"


def _calls_in_cases(d: Decider, step: Step) -> bool:
    if not step.cases or not _bounds(d, step):
        return False
    called = [one for rule in step.cases for one in rule.actions if isinstance(one, (RunAction, SinkAction))]
    return any(task.kind not in CONTROL_KINDS for task in tasks_in(called))


def _plain(value: float) -> str:
    return number_text(value, ",.10g")


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
