"""Schedules in memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from noetl.ports.automations.schedule_store import NONE_SKIPPED, ScheduleRow, SkipCause, Skipped


class MemoryScheduleStore:
    def __init__(self) -> None:
        self._rows: dict[str, ScheduleRow] = {}
        self._moments: dict[str, dict[float, int]] = {}
        self._lock = threading.Lock()

    def put(self, row: ScheduleRow) -> bool:
        with self._lock:
            old = self._rows.get(row.name)
            if old is None:
                self._rows[row.name] = replace(
                    row,
                    paused=False,
                    last_at=None,
                    last_execution=None,
                    last_error="",
                    latest_execution=None,
                    skipped_at=None,
                    skipped_reason="",
                    skips={},
                )
            elif old.path == row.path:
                self._rows[row.name] = replace(
                    row,
                    paused=old.paused,
                    last_at=old.last_at,
                    last_execution=old.last_execution,
                    last_error=old.last_error,
                    latest_execution=old.latest_execution,
                    skipped_at=old.skipped_at,
                    skipped_reason=old.skipped_reason,
                    skips=old.skips,
                )
            else:
                return False
            return True

    def get(self, name: str) -> ScheduleRow | None:
        return self._rows.get(name)

    def entries(self, *, limit: int, after: str = "") -> Sequence[ScheduleRow]:
        with self._lock:
            names = sorted(name for name in self._rows if name > after)
            return [self._rows[name] for name in names[:limit]]

    def of_path(self, path: str, *, limit: int) -> Sequence[ScheduleRow]:
        with self._lock:
            return [self._rows[name] for name in sorted(self._rows) if self._rows[name].path == path][:limit]

    def due(self, now: float, limit: int) -> Sequence[ScheduleRow]:
        with self._lock:
            found = [
                (row.next_at, row.name)
                for row in self._rows.values()
                if row.active and row.next_at is not None and row.next_at <= now
            ]
            return [self._rows[name] for _, name in sorted(found)[:limit]]

    def fired(
        self,
        row: ScheduleRow,
        at: float,
        *,
        next_at: float | None,
        execution_id: int | None,
        error: str = "",
        skipped: Mapping[SkipCause, Skipped] = NONE_SKIPPED,
    ) -> bool:
        newest = max(skipped.values(), default=None)
        with self._lock:
            old = self._rows.get(row.name)
            if old is not None and execution_id is not None:
                self._moments.setdefault(row.name, {}).setdefault(at, execution_id)
            if old is None or old.anchor != row.anchor or (old.last_at is not None and old.last_at >= at):
                return False
            self._rows[row.name] = replace(
                old,
                next_at=next_at,
                last_at=at,
                last_execution=execution_id,
                last_error=error,
                latest_execution=old.latest_execution if execution_id is None else execution_id,
                skipped_at=old.skipped_at if newest is None else newest.at,
                skipped_reason=old.skipped_reason if newest is None else newest.reason,
                skips={**old.skips, **skipped},
            )
            return True

    def pass_over(self, row: ScheduleRow, next_at: float | None) -> bool:
        with self._lock:
            old = self._rows.get(row.name)
            if old is None or (old.anchor, old.next_at) != (row.anchor, row.next_at):
                return False
            self._rows[row.name] = replace(old, next_at=next_at)
            return True

    def keep_moment(self, name: str, at: float, execution_id: int) -> None:
        with self._lock:
            if name in self._rows:
                self._moments.setdefault(name, {}).setdefault(at, execution_id)

    def moments(self, name: str, since: float, until: float) -> Mapping[float, int]:
        with self._lock:
            return {
                at: started
                for at, started in sorted(self._moments.get(name, {}).items())
                if since <= at <= until
            }

    def forget_moments(self, before: float, limit: int) -> int:
        """As ``Retention.remove_moments``."""
        with self._lock:
            old = sorted((at, name) for name, known in self._moments.items() for at in known if at < before)[
                :limit
            ]
            for at, name in old:
                del self._moments[name][at]
            return len(old)

    def set_paused(self, name: str, paused: bool, next_at: float | None) -> ScheduleRow | None:
        with self._lock:
            old = self._rows.get(name)
            if old is not None:
                self._rows[name] = old = replace(old, paused=paused, next_at=next_at)
            return old

    def delete(self, name: str) -> bool:
        with self._lock:
            self._moments.pop(name, None)
            return self._rows.pop(name, None) is not None

    def delete_declared(self, path: str, keep: str = "") -> Sequence[str]:
        with self._lock:
            names = [
                name
                for name, row in sorted(self._rows.items())
                if row.path == path and row.declared and name != keep
            ]
            for name in names:
                del self._rows[name]
                self._moments.pop(name, None)
            return names
