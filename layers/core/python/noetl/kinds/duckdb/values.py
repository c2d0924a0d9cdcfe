"""Rows of Postgres for DuckDB: their types there, and files of them that DuckDB reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.kinds.duckdb.quoting import literal, name_of
from noetl.kinds.rows.database import refuse_twins
from noetl.kinds.rows.writing import encoded

if TYPE_CHECKING:
    from noetl.kinds.postgres.select import Column, Rows

_TYPES = {
    16: "BOOLEAN",
    20: "BIGINT",
    21: "SMALLINT",
    23: "INTEGER",
    26: "BIGINT",
    114: "JSON",
    700: "REAL",
    701: "DOUBLE",
    1082: "DATE",
    1083: "TIME",
    1114: "TIMESTAMP",
    1184: "TIMESTAMP WITH TIME ZONE",
    2950: "UUID",
    3802: "JSON",
}
"""By object id. Everything else is text, but arrays (JSON), ``bytea`` (BLOB) and ``numeric``."""
_NUMERIC, _BYTEA = 1700, 17
_ARRAYS = frozenset(
    (199, 1000, 1001, 1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1115, 1182, 1185, 1231, 2951, 3807)
)
_MOST_DIGITS = 38


def duckdb_type(column: Column) -> str:
    """Return the DuckDB type of a Postgres column, exact where DuckDB can be.

    ``numeric`` without a precision is DOUBLE.
    """
    if column.type == _NUMERIC:
        precision, scale = (column.modifier - 4) >> 16, (column.modifier - 4) & 0x7FF
        fits = column.modifier >= 4 and precision <= _MOST_DIGITS and scale <= precision
        return f"DECIMAL({precision}, {scale})" if fits else "DOUBLE"
    return "JSON" if column.type in _ARRAYS else _TYPES.get(column.type, "VARCHAR")


def spool(rows: Rows, path: Path) -> int:
    """Write the rows to a file of JSON lines; how many there are. Raises TaskError."""
    count = 0
    names = [column.name for column in rows.columns]
    with path.open("wb") as file:
        for piece, number in encoded(rows, names, "jsonl"):
            file.write(piece)
            count += number
    return count


def spooled_rows(
    path: Path, columns: Sequence[Column], wanted: Mapping[str, str | None] | None = None
) -> str:
    """Write a SELECT over such a file, with the columns' types or those that are ``wanted``.

    Raises TaskError.
    """
    refuse_twins(column.name for column in columns)
    types = [(wanted or {}).get(column.name) or duckdb_type(column) for column in columns]
    pairs = zip(columns, types, strict=True)
    given = ", ".join(f"{literal(column.name)}: {literal(kind)}" for column, kind in pairs)
    binary = [name_of(column.name) for column in columns if column.type == _BYTEA]
    replaced = ", ".join(f"from_base64({name}) AS {name}" for name in binary)
    star = f"* REPLACE ({replaced})" if binary else "*"
    return " ".join(["SELECT", star, "FROM", json_lines(path, given)])


def json_lines(path: Path, columns: str = "") -> str:
    """Write the call that reads a file of JSON lines.

    ``columns``: the members of DuckDB's struct of types; when empty, DuckDB takes them from the content.
    """
    given = f", columns = {{{columns}}}" if columns else ""
    return f"read_json({literal(str(path))}, format = 'newline_delimited'{given})"
