"""Rows into a stream, chunk by chunk: the reverse of ``rows.reading``.

CSV, JSONL and JSON go out while they come in, Parquet by way of a file (``rows.parquet``). Either way only a chunk is in memory. Rows come as
mappings (``row_writer``), or as values in the order of their columns (``encoded``).

CSV: a header; null is an empty field (of a single column: an empty line) and an empty text is ``""``, so that COPY and DuckDB tell them
apart; a list or mapping is JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from noetl.domain import codec
from noetl.domain.kinds import Redaction, TaskContext
from noetl.kinds.rows.columns import Columns
from noetl.kinds.rows.formats import RowFormat
from noetl.kinds.rows.parquet import ParquetWriter, Sink

PIECE_BYTES = 1024 * 1024
MOST_COLUMNS = 100
"""Columns whose names stay readable on a reference."""
Values = Sequence[Sequence[Any]]
"""Rows of JSON values, in the order of the columns."""
Line = Callable[[Sequence[Any]], bytes]


class RowWriter(Protocol):
    """A writer of rows to a sink.

    ``close`` writes what is left; without it the output is incomplete.
    """

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows. Raises TaskError(kind="schema", code="row_shape")."""

    def close(self) -> int:
        """Write what is left; return the number of rows."""


def row_writer(
    format: RowFormat,
    sink: Sink,
    columns: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
    folder: str | None = None,
    delimiter: str = ",",
    *,
    redaction: Redaction | None = None,
) -> RowWriter:
    """Make the writer of a format.

    ``columns``: of CSV and Parquet, in order (None: those of the first row; a later row may have no other). ``types``: of Parquet columns,
    as DuckDB names them; other types follow from the values. ``folder``: for files on the way. ``delimiter``: of CSV.
    ``redaction``: of Parquet, whose file does not show the texts in it.
    """
    if format == "csv":
        return _Csv(sink, columns, delimiter)
    if format == "jsonl":
        return _Lines(sink)
    if format == "json":
        return _List(sink)
    return ParquetWriter(sink, columns, types or {}, folder, redaction=redaction)


class _Csv:
    def __init__(self, sink: Sink, columns: Sequence[str] | None, delimiter: str) -> None:
        self._sink = sink
        self._columns = Columns(columns)
        self._line = _csv_line(delimiter)
        self._begun = False

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        names = self._columns.check(rows)
        lines = [] if self._begun or not names else [self._line(names)]
        self._begun = self._begun or bool(names)
        lines += [self._line([row.get(name) for name in names]) for row in rows]
        self._sink(b"".join(lines))

    def close(self) -> int:
        if not self._begun:
            self.write([])
        return self._columns.rows


class _Lines:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._rows = 0

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows += len(rows)
        if rows:
            self._sink(b"".join(codec.encode(row) + b"\n" for row in rows))

    def close(self) -> int:
        return self._rows


class _List:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._mark = b"["
        self._rows = 0

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows += len(rows)
        if rows:
            self._sink(self._mark + b",".join(codec.encode(row) for row in rows))
            self._mark = b","

    def close(self) -> int:
        self._sink(b"[]" if self._mark == b"[" else b"]")
        return self._rows


# --- values in the order of their columns ------------------------------------------------------------


def write_rows(
    chunks: Iterable[Values], columns: Sequence[str], format: Literal["jsonl", "csv"], context: TaskContext
) -> dict[str, Any]:
    """Write an artifact with these rows and return its reference.

    ``row_count`` and ``columns`` stay readable on the reference. Raises TaskError.
    """
    count = 0
    with context.artifacts.create(format) as out:
        for piece, rows in encoded(chunks, columns, format):
            out.write(piece)
            count += rows
        return out.close(rows_meta(count, columns))


def encoded(
    chunks: Iterable[Values], columns: Sequence[str], format: Literal["jsonl", "csv"]
) -> Iterable[tuple[bytes, int]]:
    """Pieces of the text, each with how many rows it has."""
    line = _csv_line() if format == "csv" else _json_line(columns)
    if format == "csv":
        yield line(columns), 0
    for chunk in chunks:
        piece = bytearray()
        count = 0
        for row in chunk:
            piece += line(row)
            count += 1
            if len(piece) >= PIECE_BYTES:
                yield bytes(piece), count
                piece.clear()
                count = 0
        yield bytes(piece), count


def rows_meta(count: int, columns: Sequence[str]) -> dict[str, Any]:
    """Return the fields that stay readable on a reference of rows."""
    return {"row_count": count, "columns": list(columns[:MOST_COLUMNS])}


def _csv_line(delimiter: str = ",") -> Line:
    """Return a function that writes one record.

    A null of a single column is an empty line, as Postgres and DuckDB write and read it; ``""`` would be a text.
    """
    quoted = re.compile(f'[{re.escape(delimiter)}"\\r\\n]|^\\\\\\.$|^\\s|\\s$').search
    between = delimiter.encode()

    def field(value: Any) -> bytes:
        if value is None:
            return b""
        text = value if isinstance(value, str) else codec.encode(value).decode()
        if text and not quoted(text):
            return text.encode()
        return b'"' + text.replace('"', '""').encode() + b'"'

    return lambda fields: between.join(map(field, fields)) + b"\n"


def _json_line(columns: Sequence[str]) -> Line:
    return lambda row: codec.encode(dict(zip(columns, row, strict=True))) + b"\n"
