"""Triggers in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from noetl.domain.automations.triggers import SqsSource
from noetl.ports.automations.trigger_store import TriggerRow


class MemoryTriggerStore:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rows: dict[str, TriggerRow] = {}
        self._lock = threading.Lock()

    def put(self, row: TriggerRow) -> TriggerRow:
        with self._lock:
            old = self._rows.get(row.name)
            kept = TriggerRow(row.name, row.kind, row.path, row.source, created_at=self._clock())
            kept = kept if old is None else old
            made = replace(
                row,
                created_at=kept.created_at,
                last_at=kept.last_at,
                last_execution=kept.last_execution,
                last_error=kept.last_error,
                fired=kept.fired,
                failed=kept.failed,
            )
            self._rows[row.name] = made
            return made

    def get(self, name: str) -> TriggerRow | None:
        return self._rows.get(name)

    def entries(self, *, limit: int, after: str = "", kind: str = "") -> Sequence[TriggerRow]:
        with self._lock:
            rows = [self._rows[name] for name in sorted(self._rows) if name > after]
        return [row for row in rows if not kind or (row.kind == kind and row.enabled)][:limit]

    def of_path(self, path: str, *, limit: int) -> Sequence[TriggerRow]:
        with self._lock:
            return [self._rows[name] for name in sorted(self._rows) if self._rows[name].path == path][:limit]

    def of_queue(self, arn: str) -> Sequence[TriggerRow]:
        with self._lock:
            rows = [self._rows[name] for name in sorted(self._rows)]
        return [row for row in rows if isinstance(row.source, SqsSource) and row.source.queue == arn]

    def fired(self, name: str, execution_id: int | None, *, fresh: bool = True, error: str = "") -> None:
        with self._lock:
            row = self._rows.get(name)
            if row is None:
                return
            self._rows[name] = replace(
                row,
                last_at=self._clock(),
                last_execution=row.last_execution if execution_id is None else execution_id,
                last_error=error,
                fired=row.fired + (fresh and not error),
                failed=row.failed + bool(error),
            )

    def delete(self, name: str) -> bool:
        with self._lock:
            return self._rows.pop(name, None) is not None
