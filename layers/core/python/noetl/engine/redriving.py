"""Redrive: an ended execution runs again, from where its tokens were or from one step.

Step runs get new numbers, and everything derived from those (commands, timers, loops, children) is new with them: nothing of an earlier
round can be taken for something of this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.domain.events import Redrive
from noetl.domain.facts.facts import Arrival, Redriven, StepEntered
from noetl.domain.loop_resume import LoopResume
from noetl.domain.outcomes.outcomes import Outcome, Trace
from noetl.domain.redrive import LOCAL, refusal
from noetl.domain.state import ExecutionState, Token
from noetl.dsl.program import Program
from noetl.engine.decision import Decider
from noetl.engine.outcomes import body_outcome, superseded


def redrive(d: Decider, event: Redrive) -> bool:
    """Redrive an ended execution. False when there is nothing to redrive; that is recorded."""
    refused = refusal(d.state, event.step)
    if not refused and event.step in d.program.last_steps:
        refused = f"{event.step} runs at the end alone: name a step of the workflow"
    if refused:
        superseded(d, event.event_id, status=refused)
        return False
    number = d.state.next_run
    d.emit(
        Redriven(
            d.program.hash,
            d.now,
            arrivals_of(d.program, d.state, event, d.args_of),
            step=event.step,
            arcs=event.arcs,
            reason=event.reason,
            principal=event.principal,
            idle=max(0.0, d.now - event.ended) if event.ended else 0.0,
            with_output=event.with_output,
        )
    )
    if event.with_output:
        _leave_with(d, number, event)
    return True


def arrivals_of(
    program: Program, state: ExecutionState, event: Redrive, args_of: Callable[[int], dict[str, Any]]
) -> tuple[Arrival, ...]:
    """Return the runs that a redrive begins with.

    They are of its step, or of every token that was left.
    ``args_of``: the arguments of a run. One that waited at a join waits there again (``sync``).
    """
    number = state.next_run
    if event.step:
        return (Arrival(number, event.step, sync=False, args=event.args, again=event.again),)
    return tuple(
        _again(program, token, number + offset, event.arcs, args_of(token.run))
        for offset, token in enumerate(state.left)
    )


def _leave_with(d: Decider, run: int, event: Redrive) -> None:
    """Let the step of a redrive leave with the result that it was given."""
    step = d.steps[event.step]
    d.emit(StepEntered(run, step.name, args=event.args))
    output = d.keep({"output": event.output}, step.name)["output"]
    if step.loop is not None and isinstance(event.output, list):
        count = len(event.output)
        output = {"kind": "loop_result", "results": output, "count": count, "failed": 0}
    patched = Trace(
        "output.patched", step.name, payload={"principal": event.principal, "reason": event.reason}
    )
    body_outcome(d, step, d.state.tokens[run], Outcome("ok", output, trace=[patched], meta={"calls": 0}))


def _again(
    program: Program, token: Token, run: int, arcs: dict[int, int], earlier: dict[str, Any]
) -> Arrival:
    """Build the arrival of a token that was left, as a new run.

    One that waited at a join waits there again; any other has passed its join.
    """
    waited = token.phase == "arrived"
    args: dict[str, Any] = {name: value for name, value in earlier.items() if name != LOCAL}
    arc = arcs.get(token.arc, token.arc)
    return Arrival(run, token.step, arc, token.sync and waited, args, earlier_loop(program, token))


def earlier_loop(program: Program, token: Token) -> LoopResume | None:
    """Return the earlier loop run that the redriven token continues.

    None when the loop had not begun, or the step is no loop (any more).
    """
    step = program.step(token.step)
    if step.loop is None:
        return None
    if token.round:
        return LoopResume(token.run, token.round, applied=token.applied)
    return token.again
