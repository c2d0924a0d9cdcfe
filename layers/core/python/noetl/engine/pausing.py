"""Pause and resume: a paused execution begins nothing new.

``settle`` moves no token while the status is not ``running``. Commands that are issued still report. The shell asks ``waits`` of each event
and keeps those that wait in the outbox; resuming releases them, and they are handled as if they came just then.
"""

from __future__ import annotations

from noetl.domain.events import (
    CallbackDone,
    Cancel,
    ChildDone,
    CommandDone,
    Event,
    ItemAwaits,
    ItemsDone,
    LoopAlert,
    LoopDone,
    Pause,
    Resume,
    TimerFired,
)
from noetl.domain.facts.facts import FamilyRequestNoted, Paused, Resumed
from noetl.domain.ids import cascade_parent
from noetl.domain.state import ExecutionState
from noetl.engine.activate_step import retry_parked
from noetl.engine.decision import Decider
from noetl.engine.outcomes import superseded

Waiting = CommandDone | ItemsDone | LoopAlert | LoopDone | TimerFired | ChildDone | CallbackDone | ItemAwaits
"""What can be kept until an execution is resumed."""


def pass_on(d: Decider, event: Event) -> bool:
    """Let an ended execution pass its parent's cancel, pause or resume on to its own children.

    What it started, and did not wait for, is part of the family. False when ``event`` is no such request, or a pause or resume that is older
    than the last.
    """
    if isinstance(event, Cancel):
        if not event.cascade or cascade_parent(event.event_id) is None:
            return False
        d.emit(FamilyRequestNoted(d.state.heard))
        d.cancel_children()
        return True
    if not isinstance(event, (Pause, Resume)) or event.word <= d.state.heard:
        return False
    d.emit(FamilyRequestNoted(event.word))
    if isinstance(event, Pause):
        d.decision.steer_children.append("pause")
    else:
        d.decision.steer_children.append("resume")
        d.decision.release = True
    return True


def release(d: Decider) -> None:
    """Release the events that were held for an execution that is not paused any more.

    Its children are informed even if it has ended: no request could otherwise resume what was paused below them.
    """
    d.decision.release = True
    if not d.decision.cancel_children and "resume" not in d.decision.steer_children:
        d.decision.steer_children.append("resume_below")


def waits(state: ExecutionState, event: Event) -> bool:
    """Return whether ``event`` is handled only when the execution is resumed.

    The execution's own timeout ends it also while it is paused, unless runs have to be undone: that would begin something new.
    """
    if state.status != "paused" or not isinstance(event, Waiting):
        return False
    return not (isinstance(event, TimerFired) and event.timer == "execution" and not state.undo)


def pause(d: Decider, event: Pause) -> None:
    if d.state.status == "paused":
        _pause_below(d, event)
        return
    if d.state.undoing:
        superseded(d, event.event_id, status="the execution is compensating")
        return
    if d.state.verdict is not None:
        superseded(d, event.event_id, status="the execution runs its last tasks")
        return
    if event.word and event.word < d.state.heard:
        superseded(d, event.event_id, status="its parent has gone on meanwhile")
        return
    d.emit(Paused(event.reason, event.principal, event.word))
    if event.cascade:
        d.decision.steer_children.append("pause")


def _pause_below(d: Decider, event: Pause) -> None:
    """Pass a parent's pause on when this execution is paused already.

    It may have been paused without its children.
    """
    if event.cascade and event.word > d.state.heard:
        d.emit(FamilyRequestNoted(event.word))
        d.decision.steer_children.append("pause")
    else:
        superseded(d, event.event_id, status="it is paused already")


def resume(d: Decider, event: Resume) -> None:
    if event.word and event.word <= d.state.heard:
        superseded(d, event.event_id, status="its parent said something else since")
        return
    if d.state.status != "paused" and event.word:
        d.emit(FamilyRequestNoted(event.word))
        return
    if d.state.status != "paused":
        superseded(d, event.event_id, status="it is not paused")
        return
    d.emit(Resumed(event.reason, event.principal, event.word))
    if event.cascade:
        d.decision.steer_children.append("resume")
    retry_parked(d)
