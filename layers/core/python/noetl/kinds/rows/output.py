"""Rows into an artifact, a chunk at a time: CSV and JSONL as they come, Parquet by way of a file.

CSV: a header; null is an empty field and an empty text is ``""``, so that COPY and DuckDB tell them apart; a list or mapping is JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from noetl.domain import codec
from noetl.domain.kinds import ArtifactWriter, TaskContext

RowsFormat = Literal["jsonl", "csv", "parquet"]
PIECE_BYTES = 1024 * 1024
MOST_COLUMNS = 100
"""Columns whose names stay readable on a reference."""
_QUOTED = re.compile(r'[",\r\n]|^\\\.$|^\s|\s$')
Values = Sequence[Sequence[Any]]
"""Rows of JSON values, in the order of the columns."""


def write_rows(
    chunks: Iterable[Values], columns: Sequence[str], format: Literal["jsonl", "csv"], context: TaskContext
) -> dict[str, Any]:
    """The reference of an artifact with these rows; ``row_count`` and ``columns`` stay readable on it. Raises TaskError."""
    count = 0
    with context.artifacts.create(format) as out:
        for piece, rows in encoded(chunks, columns, format):
            out.write(piece)
            count += rows
        return out.close(told(count, columns))


def encoded(
    chunks: Iterable[Values], columns: Sequence[str], format: Literal["jsonl", "csv"]
) -> Iterable[tuple[bytes, int]]:
    """Pieces of the text, each with how many rows it has."""
    line: Callable[[Sequence[Any]], bytes] = csv_line if format == "csv" else _json_line(columns)
    if format == "csv":
        yield csv_line(columns), 0
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


def keep_file(path: Path, out: ArtifactWriter) -> None:
    """The bytes of a file, in pieces. Raises TaskError."""
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            out.write(piece)


def told(count: int, columns: Sequence[str]) -> dict[str, Any]:
    """What stays readable on the reference of rows."""
    return {"row_count": count, "columns": list(columns[:MOST_COLUMNS])}


def csv_line(fields: Sequence[Any]) -> bytes:
    """One record. A null of a single column is an empty line, as Postgres and DuckDB write and read it; ``""`` would be a text."""
    return b",".join([_csv_field(one) for one in fields]) + b"\n"


def _csv_field(value: Any) -> bytes:
    if value is None:
        return b""
    text = value if isinstance(value, str) else codec.encode(value).decode()
    if text and not _QUOTED.search(text):
        return text.encode()
    return b'"' + text.replace('"', '""').encode() + b'"'


def _json_line(columns: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
    def line(row: Sequence[Any]) -> bytes:
        return codec.encode(dict(zip(columns, row, strict=True))) + b"\n"

    return line
