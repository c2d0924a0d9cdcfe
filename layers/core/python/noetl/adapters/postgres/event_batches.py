"""Batches of events in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.executions.unreadable_rows import moment
from noetl.adapters.postgres.literals import number, text
from noetl.domain import codec
from noetl.domain.unreadable import demand
from noetl.ports.event_batches import BatchStatus, EventBatch, ReportedEvent
from noetl.ports.new_ids import IdTakenError

_TEXTS: msgspec.json.Decoder[list[str]] = codec.decoder(list[str])
_OUTCOMES: msgspec.json.Decoder[list[ReportedEvent]] = codec.decoder(list[ReportedEvent])


class PostgresEventBatches:
    """``database``: shared with other adapters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def accept(
        self, batch_id: int, messages: Sequence[str], *, key: str, fingerprint: str, principal: str
    ) -> tuple[EventBatch, bool]:
        values: dict[str, bytes | None] = {
            "batch_id": number(batch_id),
            "key": text(key),
            "fingerprint": text(fingerprint),
            "total": number(len(messages)),
            "principal": text(principal),
            "messages": codec.encode(list(messages)),
        }
        rows = self._database.run("accept_batch", values)
        if not rows:  # Somebody else's insert under this key was not visible yet.
            rows = self._database.run("accept_batch", values)
        if not rows:
            raise IdTakenError(batch_id)
        return _batch(rows[0]), rows[0][-1] == b"t"

    def begin(self, batch_id: int, stale_seconds: float) -> EventBatch | None:
        rows = self._database.run(
            "begin_batch", {"batch_id": number(batch_id), "stale": number(stale_seconds)}
        )
        return _batch(rows[0]) if rows else None

    def end(self, batch_id: int, status: BatchStatus, outcomes: Sequence[ReportedEvent]) -> None:
        values: dict[str, bytes | None] = {
            "batch_id": number(batch_id),
            "status": text(status),
            "told": codec.encode(list(outcomes)),
        }
        self._database.run("end_batch", values)

    def get(self, batch_id: int) -> EventBatch | None:
        rows = self._database.run("batch", {"batch_id": number(batch_id)})
        return _batch(rows[0]) if rows else None

    def unfinished(self, left_seconds: float, stale_seconds: float, limit: int) -> Sequence[int]:
        values: dict[str, bytes | None] = {
            "left": number(left_seconds),
            "stale": number(stale_seconds),
            "limit": number(limit),
        }
        return [int(row[0] or 0) for row in self._database.run("open_batches", values)]

    def forget(self, older_than_seconds: float, limit: int = 1000) -> None:
        values: dict[str, bytes | None] = {"seconds": number(older_than_seconds), "limit": number(limit)}
        self._database.run("forget_batches", values)


def _batch(row: Row) -> EventBatch:
    batch_id, fingerprint, status, total, messages, outcomes, created, ended, _ = row
    name = f"event batch {int(batch_id or 0)}"
    return EventBatch(
        int(batch_id or 0),
        (fingerprint or b"").decode(),
        cast(BatchStatus, (status or b"").decode()),
        int(total or 0),
        [] if messages is None else demand(lambda: codec.decode_as(_TEXTS, messages), name),
        [] if outcomes is None else demand(lambda: codec.decode_as(_OUTCOMES, outcomes), name),
        moment(created, f"the beginning of {name}") or 0.0,
        moment(ended, f"the end of {name}"),
    )
