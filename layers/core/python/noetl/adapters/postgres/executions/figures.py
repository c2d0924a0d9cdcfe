"""Figures about many executions, from Postgres."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from noetl.adapters.postgres.executions.views import PostgresLooking
from noetl.adapters.postgres.literals import number, numbers, text, texts, unname
from noetl.domain import codec
from noetl.ports.executions.figures import Bucket, EndedWindow, FailureGroup, Looked, PathBucket


class PostgresFigures(PostgresLooking):
    def ended_buckets(self, window: EndedWindow, seconds: int) -> tuple[Looked, Sequence[Bucket]]:
        head, *rows = self.database.run("ended_buckets", {**_ended(window), "seconds": number(seconds)})
        _, count, _, _, earliest, _ = head
        found = [
            Bucket(_float(at), _int(completed), _int(failed), _int(cancelled), _float(p50), _float(p95))
            for at, completed, failed, cancelled, p50, p95 in rows
        ]
        return _looked(count, earliest), found

    def ended_by_path(
        self, window: EndedWindow, paths: Sequence[str], seconds: int
    ) -> tuple[Looked, Sequence[PathBucket]]:
        values = {**_looking(window), "paths": texts(paths), "seconds": number(seconds)}
        head, *rows = self.database.run("ended_by_path", values)
        found = [
            PathBucket(_text(path), _float(at), _int(ended), _int(failed))
            for path, at, ended, failed, _ in rows
        ]
        return _looked(head[2], head[4]), found

    def failure_groups(self, window: EndedWindow, limit: int) -> tuple[Looked, Sequence[FailureGroup]]:
        head, *rows = self.database.run("failure_groups", {**_ended(window), "limit": number(limit)})
        found = [
            FailureGroup(_text(path), _text(code), _int(count), _float(first), _float(last), _int(latest))
            for _, path, code, count, first, last, latest in rows
        ]
        return _looked(head[3], head[4]), found

    def asking(self, after: int, limit: int) -> Sequence[int]:
        rows = self.database.run("asking", {"after": number(after), "limit": number(limit)})
        return [_int(execution_id) for (execution_id,) in rows]

    def callbacks_of_many(self, execution_ids: Sequence[int], limit: int) -> Mapping[int, Mapping[str, Any]]:
        values = {"execution_ids": numbers(execution_ids), "limit": number(limit)}
        found: defaultdict[int, dict[str, Any]] = defaultdict(dict)
        for execution_id, place, value in self.database.run("callbacks_of_many", values):
            found[_int(execution_id)][unname(_text(place))] = codec.decode(value or b"")
        return found


def _ended(window: EndedWindow) -> dict[str, bytes | None]:
    return {**_looking(window), "path": None if window.path is None else text(window.path)}


def _looking(window: EndedWindow) -> dict[str, bytes | None]:
    return {"since": number(window.since), "until": number(window.until), "most": number(window.most)}


def _looked(count: bytes | None, earliest: bytes | None) -> Looked:
    found = _int(count)
    return Looked(found, _float(earliest) if found else None)


def _int(column: bytes | None) -> int:
    return int(column or b"0")


def _float(column: bytes | None) -> float:
    return float(column or b"0")


def _text(column: bytes | None) -> str:
    return (column or b"").decode()
