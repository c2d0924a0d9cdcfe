"""Facts that every store reads from a Change before it writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from noetl.domain import ids
from noetl.ports.executions.execution_store import Change, EventRow

SUPERSEDED_LANE = -1
"""Lane of rows that came too late: kept, but part of no execution's history."""


def one_change_each(changes: Sequence[Change]) -> list[Change]:
    """Sort changes into the order in which their executions are locked.

    Raises ValueError when an execution has two changes.
    """
    ordered = sorted(changes, key=lambda change: change.execution_id)
    for first, second in pairwise(ordered):
        if first.execution_id == second.execution_id:
            raise ValueError(f"execution {first.execution_id} has two changes in one commit; make them one")
    return ordered


def applied_timers(rows: Iterable[EventRow]) -> list[tuple[str, int]]:
    """Return (timer, generation) of the TimerFired events among ``rows``.

    The store deletes their timer rows with the commit.
    """
    found = []
    for row in rows:
        prefix, _, rest = row.event_id.partition(":")
        timer, _, generation = rest.rpartition(":")
        if prefix == "timer" and generation.isdigit():
            found.append((timer, int(generation)))
    return found


def cascade_of(change: Change) -> str:
    """Return the event id of the Cancel that ``change`` sends to abandoned children."""
    return ids.cascade_event(change.execution_id, change.events[-1].seq)
