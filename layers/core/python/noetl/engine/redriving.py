"""Redrive: an execution that has ended runs again, from what was under way or from one step.

Step runs get new numbers, and everything derived from those (commands, timers, loops, children) is new with them: nothing of an earlier
round can be taken for something of this one.
"""

from __future__ import annotations

from typing import Any

from noetl.domain.events import Redrive
from noetl.domain.facts import Arrival, Redriven
from noetl.domain.state import TERMINAL, ExecutionState, Token
from noetl.engine.decision import Decider
from noetl.engine.outcomes import superseded

LOCAL = "$step"
"""Where a run keeps its own scope beside its arguments: a new run begins without."""


def redrive(d: Decider, event: Redrive) -> bool:
    """False when there is nothing to redrive; that is recorded."""
    refused = refusal(d.state, event.step)
    if refused:
        superseded(d, event.event_id, status=refused)
        return False
    number = d.state.next_run
    if event.step:
        arrivals: tuple[Arrival, ...] = (Arrival(number, event.step, sync=False, args=event.args),)
    else:
        arrivals = tuple(
            _again(d, token, number + offset, event.arcs) for offset, token in enumerate(d.state.left)
        )
    d.emit(
        Redriven(
            d.program.hash,
            d.now,
            arrivals,
            step=event.step,
            arcs=event.arcs,
            reason=event.reason,
            principal=event.principal,
        )
    )
    return True


def refusal(state: ExecutionState, step: str) -> str:
    """Why an execution in this state cannot be redriven from ``step`` (empty: from its failure); empty when it can."""
    if state.status not in TERMINAL:
        return f"it is {state.status}"
    if not state.program:
        return "it never began: start it anew"
    if step:
        return ""
    if state.status == "completed":
        return "it completed: name the step to go on from"
    if not state.left:
        return "nothing was under way when it ended, or it was compensated: name the step to go on from"
    if any(token.run == 1 and token.phase == "arrived" for token in state.left):
        return "it failed before its first step: start it anew"
    return ""


def _again(d: Decider, token: Token, run: int, arcs: dict[int, int]) -> Arrival:
    """The same token once more. One that waited at a join waits there again; any other has passed its join."""
    waited = token.phase == "arrived"
    args: dict[str, Any] = {name: value for name, value in d.args_of(token.run).items() if name != LOCAL}
    return Arrival(run, token.step, arcs.get(token.arc, token.arc), token.sync and waited, args)
