"""From events to the columns of outbox rows."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.postgres.literals import documents, numbers, printable, texts
from noetl.domain.events import Event, Start, encode_event


def outbox_parts(events: Sequence[Event]) -> dict[str, bytes | None]:
    """Return the columns of outbox rows; what the database asks of a Start has its own."""
    starts = [event if isinstance(event, Start) else None for event in events]
    return {
        "o_execution": numbers([event.execution_id for event in events]),
        "o_id": texts([event.event_id for event in events]),
        "o_payload": documents([encode_event(event) for event in events]),
        "o_awaited_by": numbers([None if start is None else start.awaited_by for start in starts]),
        "o_program": texts(["" if start is None else start.program for start in starts]),
        "o_path": texts(["" if start is None else printable(start.path) for start in starts]),
    }
