"""Rows of queries as the shapes that the store answers with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from noetl.adapters.postgres.connection import Row
from noetl.adapters.postgres.executions import fact_rows
from noetl.adapters.postgres.executions.unreadable_rows import moment
from noetl.domain import codec
from noetl.domain.labels import labels_of
from noetl.domain.state import Status
from noetl.ports.executions.execution_store import (
    Ending,
    ExecutionInfo,
    ItemBand,
    ItemBands,
    ItemWork,
    LoopProgress,
    LoopPulse,
    Pulse,
    StoredEvent,
)
from noetl.ports.executions.inspection import OpenWork

_LOOP_PULSES = codec.decoder(list[LoopPulse])


def progress(row: Row) -> LoopProgress:
    """Of ``loop_progress``."""
    run, round_, step, total, issued, done, failed, size, patched, gate = (column or b"" for column in row)
    return LoopProgress(
        run=int(run),
        round=int(round_),
        step=step.decode(),
        total=int(total),
        issued=int(issued),
        done=int(done),
        failed=int(failed),
        size=int(size),
        patched=int(patched),
        gate=cast(Any, gate.decode()),
    )


def open_work(rows: Iterable[Row]) -> OpenWork:
    """Of ``open_work``."""
    ((commands, timers, outbox, lost, oldest),) = rows
    counts = {"commands": commands, "timers": timers, "outbox": outbox, "lost": lost}
    return OpenWork({name: int(count or b"") for name, count in counts.items()}, float(oldest or b""))


def item_work(row: Row) -> ItemWork:
    """Of ``item_work``."""
    run, rows, items, calls, ms = (column or b"0" for column in row)
    return ItemWork(int(run), int(rows), int(items), int(calls), float(ms))


def item_bands(rows: Sequence[Row]) -> ItemBands | None:
    """Of ``item_bands``."""
    found = [[column or b"0" for column in row] for row in rows]
    if not found:
        return None
    bands = [
        ItemBand(int(band), int(done), int(failed), int(first)) for *_, band, done, failed, first in found
    ]
    low, high, *_ = found[0]
    return ItemBands(float(low), float(high), bands)


def info(row: Row) -> ExecutionInfo:
    """Of ``execution_info`` and the queries that list executions."""
    execution, path, name, status, program, version, started, ended, parent, state, ahead, *rest = row
    playbook_version, principal, labels, rested = rest
    return ExecutionInfo(
        execution_id=int(execution or b""),
        path=(path or b"").decode(),
        name=(name or b"").decode(),
        status=cast(Status, (status or b"").decode()),
        program=(program or b"").decode(),
        version=int(version or b""),
        started_at=moment(started, f"the start of execution {_text(execution)}") or 0.0,
        ended_at=moment(ended, f"the end of execution {_text(execution)}"),
        parent_execution_id=None if parent is None else int(parent),
        state=state or b"",
        ahead=ahead == b"t",
        playbook_version=(playbook_version or b"").decode(),
        principal=(principal or b"").decode(),
        labels=labels_of(codec.decode(labels)) if labels else {},
        rested=float(rested or b"0"),
    )


def ending(row: Row) -> Ending:
    """Of ``endings``."""
    *about, facts, slots = row
    return Ending(
        info(tuple(about)), fact_rows.plain(facts or b"[]"), dict(codec.decode(slots)) if slots else {}
    )


def pulse(row: Row) -> tuple[int, Pulse]:
    """Of ``pulses``."""
    execution, version, status, seq, loops = row
    found = _LOOP_PULSES.decode(loops) if loops else []
    return int(execution or b""), Pulse(
        int(version or b""), int(seq or b"0"), (status or b"").decode(), found
    )


def event(row: Row) -> StoredEvent:
    """Of the queries of history."""
    event_id, lane, seq, kind, at, facts = (column or b"" for column in row)
    shown = moment(at, f"the moment of event {event_id.decode()}") or 0.0
    return StoredEvent(event_id.decode(), int(lane), int(seq), kind.decode(), shown, fact_rows.plain(facts))


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
