"""Large results in Postgres: the tier ``db``.

It is also ``kv`` where there is no other key-value store.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import psycopg

from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.literals import number
from noetl.adapters.result_uri import result_key
from noetl.domain.errors import ConflictError, InfrastructureError, NotFoundError
from noetl.ports.results import OneTier

PART_BYTES = 512 * 1024
"""Bytes of one row."""
ONE_STATEMENT = 1024 * 1024
"""Objects up to this size are written by one statement."""

Values = dict[str, bytes | None]


class PostgresResultStore(OneTier):
    """Tables ``result_object`` and ``result_part``. ``database``: shared with other adapters."""

    def __init__(self, database: Database, name: Literal["db", "kv"] = "db") -> None:
        self.name: str = name
        self._database = database

    def put(self, uri: str, data: bytes) -> None:
        """Raises ConflictError(code="result_exists") when the object exists with other bytes."""
        if len(data) > ONE_STATEMENT:
            self._put_in_parts(uri, data)
            return
        digest = hashlib.sha256(data).hexdigest()
        values = self._named(uri) | {
            "content": str(uuid.uuid4()).encode(),
            "data": _array(data),
            "size": number(len(data)),
            "sha": digest.encode(),
        }
        if self._run("put_result", values)[0][0] == b"0":
            self._check_same(uri, digest)

    def _put_in_parts(self, uri: str, data: bytes) -> None:
        writer = self.writer(uri)
        try:
            writer.write(data)
            writer.commit()
        except ConflictError:
            self._check_same(uri, hashlib.sha256(data).hexdigest())
        finally:
            writer.abort()

    def _check_same(self, uri: str, digest: str) -> None:
        if self._find(uri)[3] != digest.encode():
            raise ConflictError(f"{uri} exists with other content", code="result_exists")

    def get(self, uri: str) -> bytes:
        reader = self.reader(uri)
        return reader.read(reader.size)

    def writer(self, uri: str) -> _Writer:
        return _Writer(self, uri, self._named(uri))

    def reader(self, uri: str, start: int = 0) -> _Reader:
        content, parts, size, _, first = self._find(uri)
        named = self._named(uri) | {"content": content}
        return _Reader(self, uri, named, (int(parts or 0), int(size or 0)), first, start)

    def path(self, uri: str) -> Path | None:
        return None

    def delete(self, uris: Sequence[str]) -> None:
        for uri in uris:
            self._run("remove_result", self._named(uri))

    def delete_execution(self, execution_id: int) -> int:
        values: Values = {"execution_id": number(int(execution_id)), "store": self.name.encode()}
        return int(self._run("remove_results", values)[0][0] or 0)

    def _find(self, uri: str) -> tuple[bytes | None, ...]:
        rows = self._run("read_result", self._named(uri))
        if not rows:
            raise NotFoundError(
                f"{uri} is not among the results in the database",
                code="REFERENCE_NOT_AVAILABLE",
                hint="its execution was deleted, or it ran with another database",
            )
        return rows[0]

    def _named(self, uri: str) -> Values:
        execution_id, key = result_key(uri)
        return {"execution_id": number(execution_id), "store": self.name.encode(), "key": key.encode()}

    def _run(self, name: str, values: Mapping[str, bytes | None]) -> list[tuple[bytes | None, ...]]:
        try:
            return self._database.run(name, values)
        except psycopg.Error as error:
            raise InfrastructureError(
                f"the tier {self.name}: {str(error).strip()}",
                code="result_store_failed",
                hint="is the schema up to date? `noetl db migrate`",
                retryable=False,
            ) from error


class _Writer:
    """At most one part is held."""

    def __init__(self, store: PostgresResultStore, uri: str, named: Values) -> None:
        self._store = store
        self._uri = uri
        self._named = named
        self._content: Values = {"content": str(uuid.uuid4()).encode()}
        self._waiting = bytearray()
        self._hash = hashlib.sha256()
        self._size = self._parts = 0
        self._done = False

    def write(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)
        self._waiting += data
        while len(self._waiting) >= PART_BYTES:
            self._send(bytes(self._waiting[:PART_BYTES]))
            del self._waiting[:PART_BYTES]

    def commit(self) -> None:
        if self._waiting:
            self._send(bytes(self._waiting))
            self._waiting.clear()
        about = {
            "parts": number(self._parts),
            "size": number(self._size),
            "sha": self._hash.hexdigest().encode(),
        }
        if not self._store._run("put_result_object", self._named | self._content | about):
            raise ConflictError(f"{self._uri} exists already", code="result_exists")
        self._done = True

    def abort(self) -> None:
        self._waiting.clear()
        if self._parts and not self._done:
            self._store._run("drop_result_parts", self._named | self._content)
            self._parts = 0

    def _send(self, part: bytes) -> None:
        values = {"part": number(self._parts), "data": _bytea(part)}
        self._store._run("put_result_part", self._named | self._content | values)
        self._parts += 1


class _Reader:
    """Part by part."""

    def __init__(
        self,
        store: PostgresResultStore,
        uri: str,
        named: Values,
        extent: tuple[int, int],
        first: bytes | None,
        start: int,
    ) -> None:
        self._store = store
        self._uri = uri
        self._named = named
        self._parts, self.size = extent
        self._at = min(start, self.size)
        self._held: tuple[int, bytes] | None = None if first is None else (0, _unbytea(first))

    def read(self, size: int) -> bytes:
        found: list[bytes] = []
        while size > 0 and self._at < self.size:
            part, offset = divmod(self._at, PART_BYTES)
            piece = self._part(part)[offset : offset + size]
            if not piece:
                raise self._broken(part)
            found.append(piece)
            self._at += len(piece)
            size -= len(piece)
        return b"".join(found)

    def close(self) -> None:
        self._held = None

    def _part(self, part: int) -> bytes:
        if self._held is None or self._held[0] != part:
            rows = self._store._run("read_result_part", self._named | {"part": number(part)})
            if not rows or rows[0][0] is None:
                raise self._broken(part)
            self._held = (part, _unbytea(rows[0][0]))
        return self._held[1]

    def _broken(self, part: int) -> NotFoundError:
        return NotFoundError(
            f"part {part} of {self._parts} of {self._uri} is not there any more",
            code="REFERENCE_NOT_AVAILABLE",
        )


def _array(data: bytes) -> bytes:
    """As parts: an array of bytea in text format."""
    parts = [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]
    return b"{" + b",".join(b'"\\\\x' + part.hex().encode() + b'"' for part in parts) + b"}"


def _bytea(data: bytes) -> bytes:
    return b"\\x" + data.hex().encode()


def _unbytea(value: bytes) -> bytes:
    return bytes.fromhex(value[2:].decode())
