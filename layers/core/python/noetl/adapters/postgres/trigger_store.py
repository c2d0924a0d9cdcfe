"""Triggers in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.literals import flag, number, text
from noetl.domain import codec
from noetl.domain.triggers import Kind, Source
from noetl.ports.trigger_store import TriggerRow

_SHOWN_ERROR = 2000
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
            "source": msgspec.json.encode(row.source),
            "payload": None if row.payload is None else codec.encode(row.payload),
            "event_key": text(row.event_key),
            "enabled": flag(row.enabled),
            "generation": number(row.generation),
        }
        return _trigger(self._database.run("put_trigger", values)[0])

    def get(self, name: str) -> TriggerRow | None:
        rows = self._database.run("trigger", {"name": text(name)})
        return _trigger(rows[0]) if rows else None

    def entries(self, *, limit: int, after: str = "", kind: str = "") -> Sequence[TriggerRow]:
        values: dict[str, bytes | None] = {"after": text(after), "kind": text(kind), "limit": number(limit)}
        return [_trigger(row) for row in self._database.run("list_triggers", values)]

    def of_queue(self, arn: str) -> Sequence[TriggerRow]:
        return [_trigger(row) for row in self._database.run("triggers_of_queue", {"queue": text(arn)})]

    def fired(self, name: str, execution_id: int | None, *, fresh: bool = True, error: str = "") -> None:
        values = {
            "name": text(name),
            "execution_id": None if execution_id is None else number(execution_id),
            "fired": number(int(fresh and not error)),
            "failed": number(int(bool(error))),
            "error": error[:_SHOWN_ERROR].encode("utf-8", "replace").replace(b"\0", b"?"),
        }
        self._database.run("trigger_fired", values)

    def delete(self, name: str) -> bool:
        return bool(self._database.run("delete_trigger", {"name": text(name)}))


def _trigger(row: Row) -> TriggerRow:
    name, kind, path, version, source, payload, event_key, enabled, generation = row[:9]
    created_at, last_at, last_execution, last_error, fired, failed = row[9:]
    return TriggerRow(
        name=_text(name),
        kind=cast(Kind, _text(kind)),
        path=_text(path),
        source=codec.decode_as(_SOURCE, source or b""),
        version=None if version is None else int(version),
        payload=None if payload is None else codec.decode(payload),
        event_key=_text(event_key),
        enabled=enabled == b"t",
        generation=int(generation or 1),
        created_at=float(created_at or 0),
        last_at=None if last_at is None else float(last_at),
        last_execution=None if last_execution is None else int(last_execution),
        last_error=_text(last_error),
        fired=int(fired or 0),
        failed=int(failed or 0),
    )


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
