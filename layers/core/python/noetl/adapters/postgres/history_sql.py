"""Read-only SQL in Postgres.

Each query has a connection of the reader role, and a cursor in a read-only transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection, generators, pq

from noetl.adapters.postgres.reader_role import VIEWS_SCHEMA
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, InvalidInputError, OverloadedError
from noetl.ports.history_sql import SqlColumn, SqlTable

SECONDS = 10
MOST_BYTES = 4 * 1024 * 1024
_CURSOR = "noetl_query"
_DECLARE = f"DECLARE {_CURSOR} NO SCROLL CURSOR FOR "
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
            columns = _described(connection, text)
            # The extended protocol takes one statement, and a cursor only one that reads.
            _execute(connection, _declared(text, len(columns)), text)
            # One statement, so that its time is that of the whole query; row by row, so that this process holds no more than it answers.
            rows: list[list[Any]] = []
            room = MOST_BYTES
            for result in _streamed(connection, f"FETCH FORWARD {limit + 1} FROM {_CURSOR}", text):
                room -= int(result.get_value(0, 0) or b"0") + 8 * len(columns)
                if room <= 0 or len(rows) == limit:
                    connection.close()  # the rest of the rows goes nowhere
                    return SqlTable(columns, rows, True)
                cells = [result.get_value(0, place + 1) for place in range(len(columns))]
                rows.append([_value(cell, one.type) for cell, one in zip(cells, columns, strict=True)])
            return SqlTable(columns, rows, False)


def _described(connection: Connection, text: str) -> list[SqlColumn]:
    """Return the columns of a query, without running it.

    A query that is valid by itself cannot end the brackets of ``_declared``.
    """
    _execute(connection, _DECLARE + text, text)
    found = connection.pgconn.describe_portal(_CURSOR.encode())
    columns = _columns(connection, found)
    _execute(connection, f"CLOSE {_CURSOR}")
    return columns


def _declared(text: str, count: int) -> str:
    """Return the declaration of a cursor that has the bytes of each row first.

    It leaves out the values of rows above the limit.
    """
    names = [f"c{place}" for place in range(count)]
    kept = "".join(f", CASE WHEN b.bytes <= {MOST_BYTES} THEN q.{name} END" for name in names)
    row = f"q ({', '.join(names)})" if names else "q"
    # The query is the caller's whole text, which runs with a role that can only read history.
    return (
        f"{_DECLARE}SELECT b.bytes{kept} FROM (\n{text}\n) AS {row}"  # noqa: S608
        " CROSS JOIN LATERAL (SELECT octet_length(q::text) AS bytes OFFSET 0) AS b"
    )


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
        raise _hung_up(error) from error
    if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        return result
    raise _refusal(result, text, len(_DECLARE) if statement.startswith(_DECLARE) else 0)


def _streamed(connection: Connection, statement: str, text: str) -> Iterator[pq.abc.PGresult]:
    """Run a statement, and yield a result for each row as it arrives."""
    try:
        connection.pgconn.send_query_params(statement.encode(), [])
        connection.pgconn.set_single_row_mode()
        connection.wait(generators.send(connection.pgconn))
        while (result := connection.wait(generators.fetch(connection.pgconn))) is not None:
            if result.status == pq.ExecStatus.SINGLE_TUPLE:
                yield result
            elif result.status != pq.ExecStatus.TUPLES_OK:
                raise _refusal(result, text, 0)
    except psycopg.OperationalError as error:
        raise _hung_up(error) from error


def _hung_up(error: object) -> InfrastructureError:
    return InfrastructureError(f"the database hung up: {error}", code="database_unreachable")


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
        return _hung_up(message)
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
    type_ids = "{" + ",".join(str(oid) for oid in sorted(set(oids))) + "}"
    found = connection.pgconn.exec_params(_TYPES.encode(), [type_ids.encode()])
    names = {
        int(found.get_value(row, 0) or b"0"): (found.get_value(row, 1) or b"").decode()
        for row in range(found.ntuples)
    }
    return [
        SqlColumn((result.fname(column) or b"").decode(), names.get(oid, "text"))
        for column, oid in enumerate(oids)
    ]


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
    if kind in ("json", "jsonb"):
        try:
            return codec.decode(cell)
        except ValueError:
            return text  # a number that is too large, or brackets too deep: valid in the database, and no value here
    return text
