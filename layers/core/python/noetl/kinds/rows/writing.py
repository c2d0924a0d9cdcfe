"""Rows into a stream, chunk by chunk: the reverse of ``rows.reading``.

CSV, JSONL and JSON go out while they come in. Parquet needs all rows of a column at once: they are gathered in a file first, and the
finished one is copied out. Either way only a chunk is in memory.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.kinds.rows.parquet import duckdb_library
from noetl.kinds.rows.reading import RowFormat

MEDIA_TYPES: Mapping[RowFormat, str] = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
}
_BLOCK = 1024 * 1024
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_ ]{0,40}(\(\d{1,3}(,\s*\d{1,3})?\))?(\[\])?")
_INT64 = range(-(2**63), 2**63)
_EXACT = 2**53
"""Integers up to here are the same as doubles."""

Sink = Callable[[bytes], None]


class RowWriter(Protocol):
    """Writes rows to a sink. ``close`` writes what is left; without it the output is incomplete."""

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Raises TaskError(kind="schema", code="row_shape")."""

    def close(self) -> int:
        """How many rows are there now."""


def row_writer(
    format: RowFormat,
    sink: Sink,
    columns: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
    folder: str | None = None,
    delimiter: str = ",",
) -> RowWriter:
    """``columns``: of CSV and Parquet, in order (None: those of the first row; a later row may have no other). ``types``: of Parquet columns,
    as DuckDB names them; what is not given follows from the values. ``folder``: for files on the way. ``delimiter``: of CSV."""
    if format == "csv":
        return _Csv(sink, columns, delimiter)
    if format == "jsonl":
        return _Lines(sink)
    if format == "json":
        return _List(sink)
    return _Parquet(sink, columns, types or {}, folder)


class _Columns:
    """The columns that rows must keep to."""

    def __init__(self, names: Sequence[str] | None) -> None:
        self.names = list(names) if names is not None else None
        self.rows = 0

    def check(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        if self.names is None:
            self.names = list(rows[0]) if rows else []
        known = frozenset(self.names)
        for row in rows:
            self.rows += 1
            if not row.keys() <= known:
                extra = next(name for name in row if name not in known)
                raise TaskError(
                    f"row {self.rows} has the column {extra!r}, which the first row does not have",
                    kind="schema",
                    code="row_shape",
                    hint="name the columns that are wanted in `columns`, or write jsonl, where every row has its own",
                    details={"row": self.rows, "column": extra},
                )
        return self.names


class _Csv:
    """NULL is an empty field (of a single column: an empty line), an empty text is ``""``. A mapping or list is JSON."""

    def __init__(self, sink: Sink, columns: Sequence[str] | None, delimiter: str) -> None:
        self._sink = sink
        self._columns = _Columns(columns)
        self._delimiter = delimiter
        self._quoted = re.compile(f'[{re.escape(delimiter)}"\\r\\n]|^\\s|\\s$')
        self._begun = False

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        names = self._columns.check(rows)
        lines = [] if self._begun or not names else [self._line(names)]
        self._begun = self._begun or bool(names)
        lines += [self._line([row.get(name) for name in names]) for row in rows]
        self._sink("".join(lines).encode())

    def close(self) -> int:
        if not self._begun:
            self.write([])
        return self._columns.rows

    def _line(self, fields: Sequence[Any]) -> str:
        return self._delimiter.join(map(self._field, fields)) + "\n"

    def _field(self, value: Any) -> str:
        if value is None:
            return ""
        text = value if isinstance(value, str) else codec.encode(value).decode()
        if text and not self._quoted.search(text):
            return text
        return '"' + text.replace('"', '""') + '"'


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


class _Parquet:
    def __init__(
        self, sink: Sink, columns: Sequence[str] | None, types: Mapping[str, str], folder: str | None
    ) -> None:
        for name, kind in types.items():
            if not _TYPE.fullmatch(kind):
                raise TaskError(f"{kind!r} is not a type ({name})", kind="schema", code="column_type")
        self._sink = sink
        self._columns = _Columns(columns)
        self._types = types
        self._seen: dict[str, _Seen] = {}
        self._place = tempfile.TemporaryDirectory(prefix="noetl-rows-", dir=folder)
        self._lines = Path(self._place.name) / "rows.jsonl"
        self._file = self._lines.open("wb")

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for name in self._columns.check(rows):
            seen = self._seen.setdefault(name, _Seen())
            for row in rows:
                seen.add(row.get(name))
        self._file.write(b"".join(codec.encode(row) + b"\n" for row in rows))

    def close(self) -> int:
        """Raises TaskError(kind="schema", code="column_type") for a value that its column's type cannot hold."""
        with self._place:
            self._file.close()
            made = Path(self._place.name) / "rows.parquet"
            count = _convert(self._lines, made, self._typed())
            with made.open("rb") as file:
                while block := file.read(_BLOCK):
                    self._sink(block)
        return count

    def _typed(self) -> dict[str, str]:
        names = self._columns.names or []
        return {name: self._types.get(name) or self._seen.get(name, _Seen()).type() for name in names}


class _Seen:
    """What the values of a column have in common."""

    __slots__ = ("floats", "kinds", "largest")

    def __init__(self) -> None:
        self.kinds: set[type] = set()
        self.largest = 0
        self.floats = False

    def add(self, value: Any) -> None:
        if value is None:
            return
        self.kinds.add(type(value))
        if type(value) is int and abs(value) > self.largest:
            self.largest = abs(value)

    def type(self) -> str:
        """Numbers stay exact: where a double would not hold them they become text."""
        kinds = self.kinds
        if kinds == {bool}:
            return "BOOLEAN"
        if kinds == {int}:
            return (
                "BIGINT"
                if self.largest in _INT64
                else "DECIMAL(38,0)"
                if self.largest < 10**38
                else "VARCHAR"
            )
        if kinds and kinds <= {int, float} and self.largest <= _EXACT:
            return "DOUBLE"
        return "JSON" if kinds and kinds <= {dict, list} else "VARCHAR"


def _convert(lines: Path, made: Path, typed: Mapping[str, str]) -> int:
    """How many rows there are in the file."""
    duckdb = duckdb_library()
    if not typed:
        raise TaskError(
            "a Parquet file needs columns, and there are neither rows nor `columns`",
            kind="schema",
            code="row_shape",
            hint="name the columns in `columns`",
        )
    settings: dict[str, Any] = {
        "threads": "1",
        "memory_limit": "256MiB",
        "temp_directory": str(lines.parent),
        "preserve_insertion_order": "true",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    blobs = {name for name, kind in typed.items() if kind.upper() in ("BLOB", "BYTEA")}
    shown = {name: "VARCHAR" if name in blobs else kind for name, kind in typed.items()}
    chosen = ", ".join(
        f"from_base64({_name(name)}) AS {_name(name)}" if name in blobs else _name(name) for name in typed
    )
    shapes = ", ".join(f"{_text(name)}: {_text(kind)}" for name, kind in shown.items())
    query = (
        f"COPY (SELECT {chosen} FROM read_json({_text(str(lines))}, format = 'newline_delimited', maximum_object_size = 33554432,"  # noqa: S608
        f" columns = {{{shapes}}})) TO {_text(str(made))} (FORMAT parquet)"
    )
    with closing(duckdb.connect(config=settings)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        try:
            return int((connection.execute(query).fetchone() or (0,))[0])
        except duckdb.Error as error:
            said = str(error).replace(str(lines), "the rows").strip()
            raise TaskError(
                f"the rows do not fit their types: {said[:500]}",
                kind="schema",
                code="column_type",
                hint="say what the columns are in `types`, or write jsonl",
            ) from None


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
