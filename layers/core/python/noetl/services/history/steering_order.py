"""Order of pauses and resumes.

It is that of their acceptance, regardless of the order of delivery.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from noetl.domain.errors import ConflictError
from noetl.domain.events import Event, MainEvent, Pause, Resume, decode_event
from noetl.domain.unreadable import Unreadable, attempt
from noetl.ports.executions.answers import Steering
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore


def accepted_before(steering: Sequence[Steering], event_id: str) -> list[Steering]:
    """Return what was accepted before the request of ``event_id``, which may be a repeat."""
    known = [one.event_id for one in steering]
    return list(steering[: known.index(event_id)]) if event_id in known else list(steering)


def check_paused(info: ExecutionInfo, before: Sequence[Steering]) -> None:
    """Check that the execution is paused once all requests are applied.

    Raises ConflictError unless it is.
    """
    if before and before[-1].pauses:
        return
    if before:
        raise _not_paused(info.execution_id, "being resumed already")
    if info.status != "paused":
        raise _not_paused(info.execution_id, f"{info.status}, not paused")


def _not_paused(execution_id: int, how: str) -> ConflictError:
    return ConflictError(f"execution {execution_id} is {how}", code="execution_not_paused")


def in_order(event: Pause | Resume, others: Sequence[MainEvent], store: ExecutionStore) -> list[MainEvent]:
    """Return ``event`` after the waiting pauses and resumes that it follows.

    Those wait in the outbox. The ones among ``others`` are left out.
    """
    present = {one.event_id for one in others}
    missing = [one for one in event.after if one not in present]
    earlier: dict[str, MainEvent] = {}
    for found in store.find_events(event.execution_id, missing) if missing else ():
        if found.event is None:
            continue
        read: Event | Unreadable = attempt(partial(decode_event, found.event), "a pause or resume")
        if isinstance(read, (Pause, Resume)):
            earlier[read.event_id] = read
    ordered = [earlier[one] for one in missing if one in earlier]
    return [*ordered, event] if event.event_id not in present else ordered
