"""Suspensions of a run: for a time, until a callback, or while an external job runs.

While an external job runs, the task asks for it again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome, Suspend, WaitRequest
from noetl.domain.wait_request import callback_request, iso
from noetl.pipeline.requests import TaskOutcome
from noetl.pipeline.state import Frame, Pending

if TYPE_CHECKING:
    from noetl.pipeline.run import Run


def suspension(run: Run, wait: WaitRequest) -> Suspend:
    """Return the suspension that the current ``wait`` task asks for."""
    state = run.state
    frame = state.frames[-1]
    label = run.sequences[-1][frame.pc].label
    if wait.callback:
        request = callback_request(wait, state.callbacks, label)
        state.callbacks += 1
        return Suspend({}, callback=request)
    frame.waited = {"until": iso(wait.until)} if wait.until is not None else {"seconds": _plain(wait.seconds)}
    return Suspend({}, delay=wait.seconds, until=wait.until, task=label)


def _plain(seconds: float | None) -> float | int:
    """Return a whole number without a fraction."""
    found = seconds or 0.0
    return int(found) if found.is_integer() else found


def poll(run: Run, pending: Pending, delay: float) -> Suspend:
    """Return the suspension while the external job of the current task runs."""
    frame = run.state.frames[-1]
    frame.pending = pending
    return Suspend({}, delay=delay, task=run.sequences[-1][frame.pc].label)


def over(frame: Frame) -> TaskOutcome:
    """Return the outcome of a frame's task whose wait is over."""
    waited, frame.waited = frame.waited, None
    return TaskOutcome(waited)


def child_outcome(child: Outcome) -> TaskOutcome:
    """Return a task's outcome from that of the sub-execution it waited for."""
    if child.status in ("ok", "skipped"):
        return TaskOutcome(child.result, meta=child.meta)
    error = child.error or ErrorInfo(f"the sub-execution ended as {child.status}", "unknown", "child_failed")
    return TaskOutcome(error=error, meta=child.meta)
