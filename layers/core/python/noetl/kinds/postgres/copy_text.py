"""What COPY carries: rows in its text format, or CSV as it is."""

from __future__ import annotations

import base64
import binascii
import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from noetl.domain.errors import TaskError
from noetl.kinds.postgres.values import dump_for
from noetl.kinds.rows.reading import Readable

PIECE_BYTES = 256 * 1024
"""What is handed to libpq at once: it keeps that much until the server has taken it."""
BYTEA = 17
Row = Mapping[str, Any]
_END_MARK = re.compile(rb"\n\\\.\r?\n")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Lines:
    """Rows in COPY's text format: one line each, so that the server's line is our row."""

    def __init__(self, columns: Sequence[str], types: Sequence[int], *, strict: bool) -> None:
        self.count = 0
        self._columns = list(zip(columns, types, strict=True))
        self._known = frozenset(columns) if strict else None

    def pieces(self, chunks: Iterable[Sequence[Row]]) -> Iterator[bytes]:
        for chunk in chunks:
            buffer = bytearray()
            for row in chunk:
                self.count += 1
                buffer += self._line(row)
                if len(buffer) >= PIECE_BYTES:
                    yield bytes(buffer)
                    buffer.clear()
            if buffer:
                yield bytes(buffer)

    def _line(self, row: Row) -> bytes:
        if self._known is not None and not self._known.issuperset(row):
            names = sorted(set(row) - self._known)
            raise TaskError(
                f"row {self.count} has {', '.join(map(repr, names[:5]))}, which the first row does not have",
                kind="schema",
                code="copy_columns",
                hint="say which `columns` are copied",
                details={"row": self.count},
            )
        try:
            return b"\t".join([_field(oid, row.get(name)) for name, oid in self._columns]) + b"\n"
        except TaskError as error:
            error.message = f"row {self.count}: {error.message}"
            error.details["row"] = self.count
            raise


def _field(oid: int, value: Any) -> bytes:
    if value is None:
        return b"\\N"
    if type(value) is str and oid != BYTEA and "\0" not in value:
        try:
            return value.translate(_ESCAPES).encode()
        except UnicodeEncodeError:
            pass  # told by dump_for
    if oid == BYTEA and isinstance(value, str):
        return b"\\\\x" + _binary(value)
    text = dump_for(oid, value)
    assert text is not None  # only None has no text
    return text.decode().translate(_ESCAPES).encode()


def _binary(value: str) -> bytes:
    """Convert a ``bytea`` to hexadecimal, from base64 (as in results) or ``\\x…``."""
    if value.startswith("\\x"):
        return value[2:].encode("ascii", "replace")
    try:
        return base64.b64decode(value, validate=True).hex().encode()
    except (binascii.Error, ValueError):
        raise TaskError(
            "a bytea takes base64 text, or \\x and hexadecimal digits",
            kind="client_error",
            code="22P02",
            details={"sqlstate": "22P02"},
        ) from None


def csv_header(stream: Readable) -> tuple[list[str], bytes]:
    """Read the names of the header; return them and what was read behind it."""
    held = b""
    while (end := _record_end(held)) is None:
        block = stream.read(PIECE_BYTES)
        if not block or len(held) > PIECE_BYTES * 4:
            end = len(held)
            break
        held += block
    try:
        names = next(csv.reader([held[:end].decode("utf-8-sig")], strict=True), [])
    except (ValueError, csv.Error) as error:
        raise TaskError(
            f"the header of the CSV cannot be read: {error}", kind="parse", code="object_format"
        ) from None
    if not names or len(set(names)) != len(names):
        raise TaskError(
            f"the CSV has no header of distinct names: {names[:10]}",
            kind="parse",
            code="object_format",
            hint="its first line names the columns",
        )
    return names, held[end:].removeprefix(b"\r").removeprefix(b"\n")


def _record_end(data: bytes) -> int | None:
    """Find the end of the first record: a line end outside of quotes."""
    end = -1
    while (end := data.find(b"\n", end + 1)) >= 0:
        if data.count(b'"', 0, end) % 2 == 0:
            return end - (end > 0 and data[end - 1] == 13)
    return None


def csv_blocks(first: bytes, stream: Readable) -> Iterator[bytes]:
    r"""Yield the blocks behind the header.

    A line of ``\.`` alone would end the COPY of servers before 18, and lose the rest: it is refused.
    """
    block, tail = first, b"\n"
    while True:
        joined = tail + block
        if _END_MARK.search(joined):
            raise _end_mark()
        if block:
            yield block
            tail = joined[-4:]
        block = stream.read(PIECE_BYTES)
        if not block:
            break
    if tail.endswith((b"\n\\.", b"\n\\.\r")):
        raise _end_mark()


def _end_mark() -> TaskError:
    return TaskError(
        "the CSV has a line of \\. alone, which Postgres takes for its end",
        kind="parse",
        code="object_format",
        hint="quote the field, or give the rows as jsonl",
    )
