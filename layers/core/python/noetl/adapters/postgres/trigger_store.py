"""Triggers in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.executions.unreadable_rows import moment, report
from noetl.adapters.postgres.literals import flag, number, printable, text
from noetl.domain import codec
from noetl.domain.automations.triggers import EventBridgeSource, Kind, Source, SqsSource
from noetl.domain.unreadable import Unreadable, attempt
from noetl.ports.automations.trigger_store import TriggerRow

_SHOWN_ERROR = 2000
_NOTHING = EventBridgeSource({})
"""Replaces a source that cannot be read."""
_SOURCE: msgspec.json.Decoder[Source] = codec.decoder(Source)


class PostgresTriggerStore:
    """``database``: shared with other adapters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, row: TriggerRow) -> TriggerRow:
        values = {
            "name": text(row.name),
            "kind": text(row.kind),
            "path": text(row.path),
            "version": None if row.version is None else number(row.version),
            "source": codec.encode(row.source),
            "payload": None if row.payload is None else codec.encode(row.payload),
            "event_key": text(row.event_key),
            "enabled": flag(row.enabled),
            "generation": number(row.generation),
            "queue": text(row.source.queue) if isinstance(row.source, SqsSource) else None,
        }
        return _trigger(self._database.run("put_trigger", values)[0])

    def get(self, name: str) -> TriggerRow | None:
        rows = self._database.run("trigger", {"name": text(name)})
        return _trigger(rows[0]) if rows else None

    def entries(self, *, limit: int, after: str = "", kind: str = "") -> Sequence[TriggerRow]:
        values: dict[str, bytes | None] = {"after": text(after), "kind": text(kind), "limit": number(limit)}
        found = [_trigger(row) for row in self._database.run("list_triggers", values)]
        return _readable(found) if kind else found

    def of_path(self, path: str, *, limit: int) -> Sequence[TriggerRow]:
        rows = self._database.run("triggers_of_path", {"path": text(path), "limit": number(limit)})
        return [_trigger(row) for row in rows]

    def of_queue(self, arn: str) -> Sequence[TriggerRow]:
        return _readable(
            [_trigger(row) for row in self._database.run("triggers_of_queue", {"queue": text(arn)})]
        )

    def fired(self, name: str, execution_id: int | None, *, fresh: bool = True, error: str = "") -> None:
        values = {
            "name": text(name),
            "execution_id": None if execution_id is None else number(execution_id),
            "fired": number(int(fresh and not error)),
            "failed": number(int(bool(error))),
            "error": text(printable(error[:_SHOWN_ERROR])),
        }
        self._database.run("trigger_fired", values)

    def delete(self, name: str) -> bool:
        return bool(self._database.run("delete_trigger", {"name": text(name)}))


def _readable(rows: Sequence[TriggerRow]) -> Sequence[TriggerRow]:
    """Return the rows that can be watched, and report the others."""
    for row in rows:
        if row.unreadable:
            report(row.unreadable)
    return [row for row in rows if not row.unreadable]


def _watched(source: bytes, payload: bytes | None) -> tuple[Source, Any]:
    """Decode a source and a payload. Raises ValueError for other shapes."""
    found = None if payload is None else codec.decode(payload)
    if found is not None and not isinstance(found, dict):
        raise ValueError("the payload is not a mapping")
    return codec.decode_as(_SOURCE, source), found


def _trigger(row: Row) -> TriggerRow:
    name, kind, path, version, source, payload, event_key, enabled, generation = row[:9]
    created_at, last_at, last_execution, last_error, fired, failed = row[9:]
    found = attempt(lambda: _watched(source or b"", payload), f"trigger {_text(name)}")
    unreadable = str(found) if isinstance(found, Unreadable) else ""
    watched, template = (_NOTHING, None) if isinstance(found, Unreadable) else found
    return TriggerRow(
        name=_text(name),
        kind=cast(Kind, _text(kind)),
        path=_text(path),
        source=watched,
        version=None if version is None else int(version),
        payload=template,
        event_key=_text(event_key),
        enabled=enabled == b"t" and not unreadable,
        generation=int(generation or 1),
        created_at=moment(created_at, f"the beginning of trigger {_text(name)}") or 0.0,
        last_at=moment(last_at, f"the last time of trigger {_text(name)}"),
        last_execution=None if last_execution is None else int(last_execution),
        last_error=_text(last_error),
        fired=int(fired or 0),
        failed=int(failed or 0),
        unreadable=unreadable,
    )


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
