"""Batches of events in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from noetl.ports.event_batches import BatchStatus, EventBatch, ReportedEvent
from noetl.ports.new_ids import IdTakenError


@dataclass(slots=True)
class _Entry:
    batch: EventBatch
    key: str
    principal: str
    taken_at: float = 0.0


class MemoryEventBatches:
    """``clock``: epoch seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[int, _Entry] = {}
        self._lock = threading.Lock()

    def accept(
        self, batch_id: int, messages: Sequence[str], *, key: str, fingerprint: str, principal: str
    ) -> tuple[EventBatch, bool]:
        with self._lock:
            asked = (key, fingerprint, principal)
            for entry in self._entries.values():
                if key and entry.key == key:
                    return entry.batch, False
            known = self._entries.get(batch_id)
            if known is not None:
                if key or (known.key, known.batch.fingerprint, known.principal) != asked:
                    raise IdTakenError(batch_id)
                return known.batch, False
            made = EventBatch(
                batch_id, fingerprint, "accepted", len(messages), list(messages), [], self._clock(), None
            )
            self._entries[batch_id] = _Entry(made, key, principal)
            return made, True

    def begin(self, batch_id: int, stale_seconds: float) -> EventBatch | None:
        with self._lock:
            entry, now = self._entries.get(batch_id), self._clock()
            if entry is None or entry.batch.ended_at is not None:
                return None
            if entry.batch.status == "processing" and entry.taken_at >= now - stale_seconds:
                return None
            entry.taken_at = now
            entry.batch = msgspec.structs.replace(entry.batch, status="processing")
            return entry.batch

    def end(self, batch_id: int, status: BatchStatus, outcomes: Sequence[ReportedEvent]) -> None:
        with self._lock:
            entry = self._entries.get(batch_id)
            if entry is not None and entry.batch.status == "processing":
                entry.batch = msgspec.structs.replace(
                    entry.batch, status=status, outcomes=list(outcomes), messages=[], ended_at=self._clock()
                )

    def get(self, batch_id: int) -> EventBatch | None:
        with self._lock:
            entry = self._entries.get(batch_id)
            return None if entry is None else entry.batch

    def unfinished(self, left_seconds: float, stale_seconds: float, limit: int) -> Sequence[int]:
        now = self._clock()
        with self._lock:
            found = [
                entry.batch
                for entry in self._entries.values()
                if (entry.batch.status == "accepted" and entry.batch.created_at < now - left_seconds)
                or (entry.batch.status == "processing" and entry.taken_at < now - stale_seconds)
            ]
            return [one.batch_id for one in sorted(found, key=lambda one: one.created_at)][:limit]

    def forget(self, older_than_seconds: float, limit: int = 1000) -> None:
        until = self._clock() - older_than_seconds
        with self._lock:
            ended = {one: entry.batch.ended_at for one, entry in self._entries.items()}
            for batch_id in [one for one, at in ended.items() if at is not None and at < until][:limit]:
                del self._entries[batch_id]
