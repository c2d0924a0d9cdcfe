"""Parquet, by DuckDB: rows out of a file and into one, and what its columns are."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Redaction
from noetl.kinds.duckdb.quoting import literal, name_of
from noetl.kinds.rows.columns import Columns
from noetl.kinds.rows.database import refuse_twins, to_json, unique_names
from noetl.kinds.rows.documents import json_readers, with_documents
from noetl.kinds.rows.formats import CHUNK_ROWS, unreadable

Sink = Callable[[bytes], None]
_BLOCK = 1024 * 1024
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_ ]{0,40}(\(\d{1,3}(,\s*\d{1,3})?\))?(\[\])?")
_INT64 = range(-(2**63), 2**63)
_EXACT = 2**53
"""Integers up to here are the same as doubles."""


def duckdb_library() -> Any:
    """Import DuckDB.

    Raises TaskError(code="dependency_missing") where it is not installed.
    """
    try:
        import duckdb
    except ImportError:
        raise TaskError(
            "Parquet is read and written by DuckDB, which this worker does not have",
            kind="unknown",
            code="dependency_missing",
            hint="here: pip install 'noetl-serverless[local]'; on a deployment the kinds duckdb and transfer read and write Parquet",
        ) from None
    return duckdb


@contextmanager
def _database(scratch: str = "") -> Iterator[Any]:
    """Open a database in memory that fetches nothing from other places.

    ``scratch``: a folder for what does not fit into memory.
    """
    settings: dict[str, Any] = {
        "threads": "1",
        "memory_limit": "256MiB",
        "temp_directory": scratch,
        "python_enable_replacements": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    with duckdb_library().connect(config=settings) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def parquet_types(path: Path) -> dict[str, str]:
    """Return the columns of a Parquet file and their types, as DuckDB names them."""
    with _database() as connection:
        described = connection.execute("SELECT * FROM read_parquet(?) LIMIT 0", [str(path)]).description or []
    names = unique_names([column[0] for column in described])
    return {name: str(column[1]) for name, column in zip(names, described, strict=True)}


def read_parquet(
    path: Path, *, what: str = "the file", chunk_rows: int = CHUNK_ROWS, skip: int = 0
) -> Iterator[list[dict[str, Any]]]:
    """Read the rows of a Parquet file, after the first ``skip``, some at a time.

    Raises TaskError as ``read_rows``.
    """
    with _database() as connection:
        try:
            connection.execute("SELECT * FROM read_parquet(?) OFFSET ?", [str(path), skip])
            described = connection.description or []
            names = unique_names([column[0] for column in described])
            readers = json_readers(column[1] for column in described)
            while rows := connection.fetchmany(chunk_rows):
                read = [with_documents(row, readers) for row in rows] if readers else rows
                yield [dict(zip(names, map(to_json, row), strict=True)) for row in read]
        except duckdb_library().Error as error:
            reason = (
                str(error).replace(str(path), what).partition("\n\nLINE ")[0]
            )  # without our own statement
            raise unreadable(what, "parquet", reason) from None


def parquet_options(redaction: Redaction | None) -> str:
    """Return COPY options for ``redact_parquet``; with secrets, texts are stored plainly."""
    return "FORMAT parquet" if redaction is None else "FORMAT parquet, COMPRESSION uncompressed"


def redact_parquet(path: Path, redaction: Redaction | None) -> None:
    """Remove secrets from a file by writing it again.

    Its statistics have pieces of values, which need not be whole secrets.
    """
    if redaction is None:
        return
    copy = path.with_name(f"{path.name}.redacted")
    redaction(path, copy)
    query = f"COPY (FROM read_parquet({literal(str(copy))})) TO {literal(str(path))} (FORMAT parquet)"
    with _database(str(path.parent)) as connection:
        connection.execute(query)
    copy.unlink()


def copy_out(path: Path, sink: Sink) -> None:
    """Copy the bytes of a file to the sink, in pieces."""
    with path.open("rb") as file:
        while piece := file.read(_BLOCK):
            sink(piece)


class ParquetWriter:
    """A ``RowWriter`` of Parquet, which gathers the rows in a file of JSON lines first.

    ``types``: of columns, as DuckDB names them; other types follow from the values. ``folder``: for files on the way.
    ``redaction``: removes secrets from the file.
    """

    def __init__(
        self,
        sink: Sink,
        columns: Sequence[str] | None,
        types: Mapping[str, str],
        folder: str | None,
        *,
        redaction: Redaction | None = None,
    ) -> None:
        for name, kind in types.items():
            if not _TYPE.fullmatch(kind):
                raise TaskError(f"{kind!r} is not a type ({name})", kind="schema", code="column_type")
        self._sink = sink
        self._columns = Columns(columns)
        self._types = types
        self._redaction = redaction
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
        """Write the Parquet file.

        Raises TaskError(kind="schema", code="column_type") for a value that its column's type cannot hold.
        """
        with self._place:
            self._file.close()
            made = Path(self._place.name) / "rows.parquet"
            count = _convert(self._lines, made, self._typed(), parquet_options(self._redaction))
            redact_parquet(made, self._redaction)
            copy_out(made, self._sink)
        return count

    def _typed(self) -> dict[str, str]:
        names = self._columns.names or []
        return {name: self._types.get(name) or self._seen.get(name, _Seen()).type() for name in names}


class _Seen:
    """What the values of a column have in common."""

    __slots__ = ("kinds", "largest")

    def __init__(self) -> None:
        self.kinds: set[type] = set()
        self.largest = 0

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


def _convert(lines: Path, made: Path, typed: Mapping[str, str], options: str) -> int:
    """Convert JSON lines to Parquet; return the number of rows."""
    if not typed:
        raise TaskError(
            "a Parquet file needs columns, and there are neither rows nor `columns`",
            kind="schema",
            code="row_shape",
            hint="name the columns in `columns`",
        )
    refuse_twins(typed)
    blobs = {name for name, kind in typed.items() if kind.upper() in ("BLOB", "BYTEA")}
    shown = {name: "VARCHAR" if name in blobs else kind for name, kind in typed.items()}
    chosen = ", ".join(
        f"from_base64({name_of(name)}) AS {name_of(name)}" if name in blobs else name_of(name)
        for name in typed
    )
    shapes = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in shown.items())
    query = (
        f"COPY (SELECT {chosen} FROM read_json({literal(str(lines))}, format = 'newline_delimited', maximum_object_size = 33554432,"  # noqa: S608
        f" columns = {{{shapes}}})) TO {literal(str(made))} ({options})"
    )
    with _database(str(lines.parent)) as connection:
        try:
            return int((connection.execute(query).fetchone() or (0,))[0])
        except duckdb_library().Error as error:
            reason = str(error).replace(str(lines), "the rows").strip()
            raise TaskError(
                f"the rows do not fit their types: {reason[:500]}",
                kind="schema",
                code="column_type",
                hint="say what the columns are in `types`, or write jsonl",
            ) from None
