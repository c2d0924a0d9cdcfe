"""The formats that rows are read from and written in, and how to recognise a file's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from noetl.domain.errors import TaskError

RowFormat = Literal["csv", "jsonl", "json", "parquet"]
FORMATS: tuple[RowFormat, ...] = ("csv", "jsonl", "json", "parquet")
CHUNK_ROWS = 1000
"""Rows that are handed on at once."""
_SUFFIXES: Mapping[str, RowFormat] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_MEDIA_TYPES: Mapping[str, RowFormat] = {
    "text/csv": "csv",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/json": "json",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
}


def format_of(name: str, content_type: str = "") -> RowFormat | None:
    """Return the format by a name's ending or a media type; None when neither is known."""
    by_suffix = _SUFFIXES.get(Path(name).suffix.lower())
    return by_suffix or _MEDIA_TYPES.get(content_type.partition(";")[0].strip().lower())


def unreadable(what: str, format: str, why: str) -> TaskError:
    """Make the error of what ``read_rows`` refuses."""
    return TaskError(
        f"{what} cannot be read as {format}: {why}",
        kind="parse",
        code="object_format",
        hint=f"say what it is: `format: {' | '.join(FORMATS)}`",
    )
