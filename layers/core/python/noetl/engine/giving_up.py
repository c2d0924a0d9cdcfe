"""What happens to an execution when the engine itself fails on one of its events.

The execution fails, unless it fails already and compensates.
"""

from __future__ import annotations

from noetl.domain.errors import NoetlError
from noetl.domain.events import CallbackDone, Cancel, ChildDone, CommandDone, Event, MainEvent, TimerFired
from noetl.domain.facts.facts import CallFailed
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.state import ExecutionState, Token
from noetl.dsl.program import Program
from noetl.engine.callbacks import expected, late_for
from noetl.engine.compensation import require
from noetl.engine.complete_execution import complete_if_done, fail_execution
from noetl.engine.decision import Decider, Decision
from noetl.engine.ending import cut_short
from noetl.engine.handle_event import prioritise, settle
from noetl.engine.outcomes import superseded, waiting_for_child, waiting_token
from noetl.engine.pausing import release
from noetl.engine.scopes.slot_view import View


def give_up(
    program: Program,
    state: ExecutionState,
    event: MainEvent,
    broken: Event,
    error: ErrorInfo,
    now: float,
    view: View,
) -> Decision:
    """Decide what becomes of an execution when the engine fails on ``broken``.

    Other executions continue. This one fails with what is known. One that compensates does so to its end: the compensation that waits for
    ``broken`` counts as failed, and the next one runs; an event that none waits for is superseded. So it is with its last tasks. A Cancel
    asks for the end, so it ends the execution at once. ``event``: what is decided in place of ``broken``; it names the execution.
    """
    d = Decider(program, state, event, now, view)
    if state.verdict is not None and not isinstance(broken, Cancel):
        if _waiting_for(d, broken) is None:
            superseded(d, broken.event_id, status="the execution runs its last tasks")
            return d.decision
        fail_execution(d, error)
    elif state.verdict is not None:
        cut_short(d, error.message, "")
    elif not state.undoing or isinstance(broken, Cancel):
        fail_execution(d, error)
    elif (token := _waiting_for(d, broken)) is not None:
        _could_not(d, token, error)
    else:
        superseded(d, broken.event_id, status="the execution is compensating")
        return d.decision
    try:
        settle(d)
    except Exception as failure:
        reason = d.error_of(failure) if isinstance(failure, NoetlError) else error
        if d.state.verdict is None:
            fail_execution(d, reason)
        if d.state.verdict is not None:
            cut_short(d, reason.message, "")
        complete_if_done(d)
    prioritise(d)
    if state.status == "paused":
        release(d)
    return d.decision


def _waiting_for(d: Decider, broken: Event) -> Token | None:
    """Return the token that waits for ``broken``, if one does."""
    if isinstance(broken, CommandDone):
        return waiting_token(d, broken)
    if isinstance(broken, ChildDone):
        return waiting_for_child(d, broken)
    if isinstance(broken, CallbackDone):
        return expected(d, broken)
    return late_for(d, broken) if isinstance(broken, TimerFired) else None


def _could_not(d: Decider, token: Token, error: ErrorInfo) -> None:
    """Record that the run stays done, and drop all that its compensation has under way."""
    require(d, token.run)
    d.decision.drop_runs.append(token.run)
    d.emit(CallFailed(token.run, token.step, error, stage="compensate"))
