"""Read-only SQL in Postgres: a connection of the reader role for each query, a cursor in a read-only transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection, pq

from noetl.adapters.postgres.reader_role import VIEWS_SCHEMA
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, InvalidInputError, OverloadedError
from noetl.ports.history_sql import SqlColumn, SqlTable

SECONDS = 10
MOST_BYTES = 4 * 1024 * 1024
BATCH = 500
_DECLARE = "DECLARE noetl_query NO SCROLL CURSOR FOR "
_BEGIN = (
    "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    f"SET LOCAL statement_timeout = '{SECONDS}s'",
    "SET LOCAL lock_timeout = '2s'",
    f"SET LOCAL search_path = {VIEWS_SCHEMA}",
)
_EXACT = 2**53
"""Whole numbers above lose digits in programs that read JSON numbers as doubles: they are sent as text."""
_TYPES = """
SELECT t.oid, format_type(t.oid, NULL) FROM pg_type t WHERE t.oid = ANY($1::oid[])
"""
_NUMBERS = frozenset({"smallint", "integer", "bigint"})
_FLOATS = frozenset({"real", "double precision"})


class PostgresHistorySql:
    """``address``: the connection string of the reader role, asked for at each query."""

    def __init__(self, address: Callable[[], str]) -> None:
        self._address = address

    def run(self, text: str, limit: int) -> SqlTable:
        with _connected(self._address()) as connection:
            for statement in _BEGIN:
                _execute(connection, statement)
            # The extended protocol takes one statement, and a cursor only one that reads.
            _execute(connection, _DECLARE + text, text)
            columns: list[SqlColumn] = []
            rows: list[list[Any]] = []
            room = MOST_BYTES
            while len(rows) <= limit and room > 0:
                wanted = min(BATCH, limit + 1 - len(rows))
                result = _execute(connection, f"FETCH FORWARD {wanted} FROM noetl_query", text)
                columns = columns or _columns(connection, result)
                found, room = _rows(result, columns, room)
                rows += found
                if result.ntuples < wanted:
                    break
            return SqlTable(columns, rows[:limit], len(rows) > limit or room <= 0)


@contextmanager
def _connected(address: str) -> Iterator[Connection]:
    try:
        connection = Connection.connect(
            address, autocommit=True, prepare_threshold=None, connect_timeout=10, application_name="noetl sql"
        )
    except psycopg.OperationalError as error:
        if "too many connections" in str(error):
            raise OverloadedError(
                "too many queries run at the same time",
                code="too_many_queries",
                hint="ask again when one of them has ended",
                details={"retry_after": 2},
            ) from error
        raise InfrastructureError(
            f"the role that reads history cannot sign in: {str(error).strip()}",
            code="database_unreachable",
            hint="docs/api/history.md says how the role is made",
        ) from error
    with connection:
        yield connection


def _execute(connection: Connection, statement: str, text: str = "") -> pq.abc.PGresult:
    try:
        result = connection.pgconn.exec_params(statement.encode(), [])
    except psycopg.OperationalError as error:
        raise InfrastructureError(f"the database hung up: {error}", code="database_unreachable") from error
    if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        return result
    raise _refusal(result, text, len(_DECLARE) if statement.startswith(_DECLARE) else 0)


def _refusal(result: pq.abc.PGresult, text: str, before: int) -> Exception:
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
    if state == "57014":
        return InvalidInputError(
            f"the query took longer than {SECONDS} s",
            code="sql_timeout",
            hint="name an execution_id, or a shorter time",
        )
    if state[:2] == "57" or state in ("08000", "08003", "08006") or not state:
        return InfrastructureError(f"the database hung up: {message}", code="database_unreachable")
    place = result.error_field(pq.DiagnosticField.STATEMENT_POSITION)
    hint = (result.error_field(pq.DiagnosticField.MESSAGE_HINT) or b"").decode("utf-8", "replace")
    where, details = "", {"sqlstate": state}
    if place is not None and int(place) > before:
        line, column = _place(text, int(place) - before)
        where = f"{line}:{column}: "
        details["at"] = f"{line}:{column}"
    return InvalidInputError(
        f"{where}{message}",
        code="sql_invalid",
        hint=hint or None,
        details=details,
    )


def _place(text: str, position: int) -> tuple[int, int]:
    before = text[: position - 1]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _columns(connection: Connection, result: pq.abc.PGresult) -> list[SqlColumn]:
    oids = [result.ftype(column) for column in range(result.nfields)]
    asked = "{" + ",".join(str(oid) for oid in sorted(set(oids))) + "}"
    found = connection.pgconn.exec_params(_TYPES.encode(), [asked.encode()])
    names = {
        int(found.get_value(row, 0) or b"0"): (found.get_value(row, 1) or b"").decode()
        for row in range(found.ntuples)
    }
    return [
        SqlColumn((result.fname(column) or b"").decode(), names.get(oid, "text"))
        for column, oid in enumerate(oids)
    ]


def _rows(result: pq.abc.PGresult, columns: list[SqlColumn], room: int) -> tuple[list[list[Any]], int]:
    """Rows of one batch while there is room; what is left of it."""
    found = []
    for row in range(result.ntuples):
        cells = [result.get_value(row, column) for column in range(result.nfields)]
        room -= sum(len(cell) for cell in cells if cell is not None) + 8 * len(cells)
        if room <= 0:
            break
        found.append([_value(cell, column.type) for cell, column in zip(cells, columns, strict=True)])
    return found, room


def _value(cell: bytes | None, kind: str) -> Any:
    if cell is None:
        return None
    text = cell.decode("utf-8", "replace")
    if kind in _NUMBERS:
        return int(text) if abs(int(text)) <= _EXACT else text
    if kind in _FLOATS:
        return float(text) if text not in ("NaN", "Infinity", "-Infinity") else text
    if kind == "boolean":
        return text == "t"
    return codec.decode(cell) if kind in ("json", "jsonb") else text
