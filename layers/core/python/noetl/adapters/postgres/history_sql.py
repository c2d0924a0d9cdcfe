"""Read-only SQL in Postgres.

Each query has a connection of the reader role, and a cursor in a read-only transaction. Time has two limits: Postgres's own, which it
looks at between rows, and the client's, which closes the connection in the middle of one. Memory has the limit that the server's owner
sets on the query's process, where that is possible (``Bound``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import Connection, generators, pq

from noetl.adapters.postgres.reader_role import VIEWS_SCHEMA
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, InvalidInputError, OverloadedError
from noetl.ports.history_sql import SqlColumn, SqlTable

T = TypeVar("T")

SECONDS = 10
MOST_BYTES = 4 * 1024 * 1024
Bound = Callable[[int], None]
"""Limits the memory of a server process, by its id."""
_PLACE_SECONDS, _LOOK_SECONDS = 1.0, 0.05
"""How long a query waits for a place, and how often it looks."""
_GRACE = 1.0
"""Seconds that Postgres has to end a query by itself, before the connection is closed."""
_CURSOR = "noetl_query"
_DECLARE = f"DECLARE {_CURSOR} NO SCROLL CURSOR FOR "
_BEGIN = (
    "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    f"SET LOCAL statement_timeout = '{SECONDS}s'",
    "SET LOCAL lock_timeout = '2s'",
    f"SET LOCAL search_path = {VIEWS_SCHEMA}",
)
_ON_REPLICA = "SELECT pg_is_in_recovery()"
_EXACT = 2**53
"""Whole numbers above lose digits in programs that read JSON numbers as doubles: they are sent as text."""
_TYPES = """
SELECT t.oid, format_type(t.oid, NULL) FROM pg_type t WHERE t.oid = ANY($1::oid[])
"""
_TOO_LARGE = {"53200": "memory", "53400": "room on the disk"}
"""What a query ran out of, by SQLSTATE."""
_IN_THE_WAY = ("40", "55P03")
"""SQLSTATEs of what gave way to others: on a reader instance, to the changes of the primary."""
_OF_THE_SERVER = ("53", "58")
"""Of what the server's machine lacks."""
_NUMBERS = frozenset({"smallint", "integer", "bigint"})
_FLOATS = frozenset({"real", "double precision"})


class PostgresHistorySql:
    """Queries on connections of their own.

    ``address``: the connection string of the reader role, asked for at each query. ``bound``: see ``Bound``. ``apart``: the address is one of
    replicas, and no query runs on the primary, where such an address leads while there is no replica, and for a moment after a failover.
    """

    def __init__(
        self, address: Callable[[], str], bound: Bound = lambda process: None, *, apart: bool = False
    ) -> None:
        self._address = address
        self._bound = bound
        self._apart = apart

    def run(self, text: str, limit: int) -> SqlTable:
        with _connected(self._address()) as opened:
            self._bound(opened.pgconn.backend_pid)
            connection = _Timed(opened, time.monotonic() + SECONDS + _GRACE)
            for statement in _BEGIN:
                connection.execute(statement)
            if self._apart and connection.execute(_ON_REPLICA).get_value(0, 0) != b"t":
                raise _no_replica()
            columns = _described(connection, text)
            # The extended protocol takes one statement, and a cursor only one that reads.
            connection.execute(_declared(text, len(columns)), text)
            # One statement, so that its time is that of the whole query; row by row, so that this process holds no more than it answers.
            rows: list[list[Any]] = []
            room = MOST_BYTES
            for result in _rows(connection, f"FETCH FORWARD {limit + 1} FROM {_CURSOR}", text):
                room -= int(result.get_value(0, 0) or b"0") + 8 * len(columns)
                if room <= 0 or len(rows) == limit:
                    opened.close()  # the rest of the rows goes nowhere
                    return SqlTable(columns, rows, True)
                cells = [result.get_value(0, place + 1) for place in range(len(columns))]
                rows.append([_value(cell, one.type) for cell, one in zip(cells, columns, strict=True)])
            return SqlTable(columns, rows, False)


class _Timed:
    """A connection whose statements all end before ``deadline`` (monotonic seconds).

    Postgres looks at its own timeout between rows and parts of them: one function may go on for long.
    """

    def __init__(self, connection: Connection, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def results(
        self, statement: str, values: Sequence[bytes] = (), *, by_row: bool = False
    ) -> Iterator[pq.abc.PGresult]:
        """Run a statement and yield its results, or one for each row as it arrives.

        Raises InvalidInputError(code="sql_timeout"), after the connection is closed, and InfrastructureError.
        """
        server = self._connection.pgconn
        try:
            server.send_query_params(statement.encode(), values)
            if by_row:
                server.set_single_row_mode()
            self._wait(generators.send(server))
            while (result := self._wait(generators.fetch(server))) is not None:
                yield result
        except psycopg.OperationalError as error:
            if time.monotonic() < self._deadline:
                raise _hung_up(error) from error
            self._connection.close()
            raise _too_slow() from error

    def execute(self, statement: str, text: str = "", values: Sequence[bytes] = ()) -> pq.abc.PGresult:
        """Run a statement that has no rows, or few.

        Raises what ``results`` and ``_refusal`` say.
        """
        *_, result = self.results(statement, values)
        if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            return result
        raise _refusal(result, text, len(_DECLARE) if statement.startswith(_DECLARE) else 0)

    def described(self) -> pq.abc.PGresult:
        """Return the columns of the open cursor."""
        return self._connection.pgconn.describe_portal(_CURSOR.encode())

    def _wait(self, work: Generator[Any, Any, T]) -> T:
        return self._connection.wait(work, timeout=max(0.0, self._deadline - time.monotonic()))


def _described(connection: _Timed, text: str) -> list[SqlColumn]:
    """Return the columns of a query, without running it.

    A query that is valid by itself cannot end the brackets of ``_declared``.
    """
    connection.execute(_DECLARE + text, text)
    columns = _columns(connection, connection.described())
    connection.execute(f"CLOSE {_CURSOR}")
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
    connection = _connection(address, time.monotonic() + _PLACE_SECONDS)
    with closing(connection):  # not the connection's own context, which would roll back what may still run
        yield connection


def _connection(address: str, deadline: float) -> Connection:
    """Sign in; wait until ``deadline`` (monotonic seconds) for one of the few places.

    The process of a query that has ended keeps its place for a moment. Raises OverloadedError and InfrastructureError.
    """
    while True:
        try:
            return Connection.connect(
                address,
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=10,
                application_name="noetl sql",
            )
        except psycopg.OperationalError as error:
            if "too many connections" not in str(error):
                raise InfrastructureError(
                    f"the role that reads history cannot sign in: {str(error).strip()}",
                    code="database_unreachable",
                    hint="docs/api/history.md says how the role is made",
                ) from error
            if time.monotonic() >= deadline:
                raise OverloadedError(
                    "too many queries run at the same time",
                    code="too_many_queries",
                    hint="ask again when one of them has ended",
                    details={"retry_after": 2},
                ) from error
        time.sleep(_LOOK_SECONDS)


def _rows(connection: _Timed, statement: str, text: str) -> Iterator[pq.abc.PGresult]:
    """Run a statement, and yield a result for each row as it arrives."""
    for result in connection.results(statement, by_row=True):
        if result.status == pq.ExecStatus.SINGLE_TUPLE:
            yield result
        elif result.status != pq.ExecStatus.TUPLES_OK:
            raise _refusal(result, text, 0)


def _hung_up(error: object) -> InfrastructureError:
    return InfrastructureError(f"the database hung up: {error}", code="database_unreachable")


def _no_replica() -> InfrastructureError:
    return InfrastructureError(
        "the reader instance of the database is not there, and no query runs on the other one",
        code="reader_unreachable",
        hint="ask again when it is back: after a failover that takes a minute",
    )


def _too_slow() -> InvalidInputError:
    return InvalidInputError(
        f"the query took longer than {SECONDS} s",
        code="sql_timeout",
        hint="name an execution_id, or a shorter time",
    )


def _refusal(result: pq.abc.PGresult, text: str, before: int) -> Exception:
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
    if state == "57014":
        return _too_slow()
    if state in _TOO_LARGE:
        return InvalidInputError(
            f"the query needs more {_TOO_LARGE[state]} than a query may use",
            code="sql_too_large",
            hint="name an execution_id, or read less of each row",
            details={"sqlstate": state},
        )
    if state[:2] == "57" or state in ("08000", "08003", "08006") or not state:
        return _hung_up(message)
    if state.startswith(_IN_THE_WAY):
        return InfrastructureError(
            f"the database ended the query in favour of others: {message}",
            code="database_contention",
            hint="ask again",
        )
    if state.startswith(_OF_THE_SERVER):
        return InfrastructureError(
            f"the database cannot run the query: {message}", code="database_unreachable"
        )
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


def _columns(connection: _Timed, result: pq.abc.PGresult) -> list[SqlColumn]:
    oids = [result.ftype(column) for column in range(result.nfields)]
    type_ids = "{" + ",".join(str(oid) for oid in sorted(set(oids))) + "}"
    found = connection.execute(_TYPES, values=[type_ids.encode()])
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
