"""Schedules in Postgres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.executions.unreadable_rows import moment, report
from noetl.adapters.postgres.literals import flag, number, numbers, printable, text, texts
from noetl.domain import codec
from noetl.domain.automations.missed_run_policy import CatchUp, Overlap
from noetl.domain.unreadable import Unreadable, attempt
from noetl.ports.automations.schedule_store import NONE_SKIPPED, ScheduleRow, SkipCause, Skipped

_SHOWN_ERROR = 2000
_SKIPS = codec.decoder(dict[SkipCause, Skipped])


class PostgresScheduleStore:
    """``database``: a connection string, or a Database shared with other adapters."""

    def __init__(self, database: str | Database, *, pooled: bool = False) -> None:
        self._database = Database(database, pooled=pooled) if isinstance(database, str) else database

    def close(self) -> None:
        self._database.close()

    def put(self, row: ScheduleRow) -> bool:
        values = {
            "name": text(row.name),
            "path": text(row.path),
            "version": _maybe(row.version),
            "cron": None if row.cron is None else text(row.cron),
            "rate": None if row.rate is None else text(row.rate),
            "timezone": text(row.timezone),
            "payload": codec.encode(row.payload),
            "enabled": flag(row.enabled),
            "declared": flag(row.declared),
            "anchor": number(row.anchor),
            "next_at": _maybe(row.next_at),
            "catch_up": text(row.catch_up),
            "catch_up_max": number(row.catch_up_max),
            "overlap": text(row.overlap),
        }
        return bool(self._database.run("put_schedule", values))

    def get(self, name: str) -> ScheduleRow | None:
        return _first(self._database.run("schedule", {"name": text(name)}))

    def entries(self, *, limit: int, after: str = "") -> Sequence[ScheduleRow]:
        rows = self._database.run("list_schedules", {"after": text(after), "limit": number(limit)})
        return [_schedule(row) for row in rows]

    def of_path(self, path: str, *, limit: int) -> Sequence[ScheduleRow]:
        rows = self._database.run("schedules_of_path", {"path": text(path), "limit": number(limit)})
        return [_schedule(row) for row in rows]

    def due(self, now: float, limit: int) -> Sequence[ScheduleRow]:
        rows = self._database.run("due_schedules", {"now": number(now), "limit": number(limit)})
        return [_schedule(row) for row in rows]

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
        skips = {
            cause: Skipped(one.at, printable(one.reason[:_SHOWN_ERROR])) for cause, one in skipped.items()
        }
        newest = max(skips.values(), default=None)
        values = {
            "name": text(row.name),
            "anchor": number(row.anchor),
            "at": number(at),
            "next_at": _maybe(next_at),
            "execution_id": _maybe(execution_id),
            "error": text(printable(error[:_SHOWN_ERROR])),
            "skipped_at": None if newest is None else number(newest.at),
            "skipped_reason": None if newest is None else text(newest.reason),
            "causes": texts(skips),
            "moments": numbers(one.at for one in skips.values()),
            "reasons": texts(one.reason for one in skips.values()),
        }
        return bool(self._database.run("schedule_fired", values))

    def pass_over(self, row: ScheduleRow, next_at: float | None) -> bool:
        values = {
            "name": text(row.name),
            "anchor": number(row.anchor),
            "was": _maybe(row.next_at),
            "next_at": _maybe(next_at),
        }
        return bool(self._database.run("pass_over_moment", values))

    def keep_moment(self, name: str, at: float, execution_id: int) -> None:
        values = {"name": text(name), "at": number(at), "execution_id": number(execution_id)}
        self._database.run("keep_schedule_moment", values)

    def moments(self, name: str, since: float, until: float) -> Mapping[float, int]:
        values = {"name": text(name), "since": number(since), "until": number(until)}
        rows = self._database.run("schedule_moments", values)
        return {float(at or 0): int(execution_id or 0) for at, execution_id in rows}

    def set_paused(self, name: str, paused: bool, next_at: float | None) -> ScheduleRow | None:
        values = {"name": text(name), "paused": flag(paused), "next_at": _maybe(next_at)}
        return _first(self._database.run("pause_schedule", values))

    def delete(self, name: str) -> bool:
        return bool(self._database.run("delete_schedule", {"name": text(name)}))

    def delete_declared(self, path: str, keep: str = "") -> Sequence[str]:
        rows = self._database.run("delete_declared_schedules", {"path": text(path), "keep": text(keep)})
        return [_text(name) for (name,) in rows]


def _maybe(value: float | None) -> bytes | None:
    return None if value is None else number(value)


def _first(rows: list[Row]) -> ScheduleRow | None:
    return _schedule(rows[0]) if rows else None


def _schedule(row: Row) -> ScheduleRow:
    name, path, version, cron, rate, timezone, payload, enabled, paused, declared = row[:10]
    anchor, next_at, last_at, last_execution, last_error = row[10:15]
    catch_up, catch_up_max, overlap, latest_execution, skipped_at, skipped_reason, skips = row[15:]
    found = attempt(lambda: _mapping(payload or b"{}"), f"the payload of schedule {_text(name)}")
    skipped = attempt(lambda: codec.decode_as(_SKIPS, skips or b"{}"), f"the skips of schedule {_text(name)}")
    if isinstance(skipped, Unreadable):
        report(skipped)
        skipped = {}
    due = moment(next_at, f"the next time of schedule {_text(name)}")
    if next_at is not None and due is None:
        found = Unreadable(f"the next time of schedule {_text(name)}", "it is no moment")
    return ScheduleRow(
        name=_text(name),
        path=_text(path),
        version=None if version is None else int(version),
        cron=None if cron is None else _text(cron),
        rate=None if rate is None else _text(rate),
        timezone=_text(timezone),
        payload={} if isinstance(found, Unreadable) else found,
        unreadable=str(found) if isinstance(found, Unreadable) else "",
        enabled=enabled == b"t",
        paused=paused == b"t",
        declared=declared == b"t",
        anchor=moment(anchor, f"the anchor of schedule {_text(name)}") or 0.0,
        next_at=due,
        last_at=moment(last_at, f"the last time of schedule {_text(name)}"),
        last_execution=None if last_execution is None else int(last_execution),
        last_error=_text(last_error),
        catch_up=cast(CatchUp, _text(catch_up)),
        catch_up_max=int(catch_up_max or 0),
        overlap=cast(Overlap, _text(overlap)),
        latest_execution=None if latest_execution is None else int(latest_execution),
        skipped_at=moment(skipped_at, f"the skipped time of schedule {_text(name)}"),
        skipped_reason=_text(skipped_reason),
        skips=skipped,
    )


def _mapping(document: bytes) -> dict[str, Any]:
    """Decode a payload. Raises ValueError for what is no mapping."""
    found = codec.decode(document)
    if not isinstance(found, dict):
        raise ValueError("it is not a mapping")
    return found


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
