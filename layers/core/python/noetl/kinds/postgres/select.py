"""The rows of a large Postgres query, some at a time, through a cursor on the server.

They are fetched in pieces of bounded size.

The server keeps the result; a reader that is slow (a tier far away) holds nothing up but its own transaction.
Shared by the kinds ``postgres``, ``duckdb`` and ``transfer``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import adapt, pq
from psycopg.pq import ExecStatus

from noetl.domain.errors import TaskError
from noetl.kinds.postgres.leading_words import leading_words
from noetl.kinds.postgres.run import Session, failure_of, load_rows
from noetl.kinds.postgres.values import text_bytes
from noetl.kinds.rows.database import unique_names
from noetl.kinds.support.sql_params import first_line, native_text
from noetl.templating.contract import RenderedStatement

CURSOR = "noetl_rows"
FIRST_ROWS = 10
"""Rows of the first piece; from then on as many as fit into PIECE_BYTES, by the size of those that came."""
MOST_ROWS = 5000
PIECE_BYTES = 2 * 1024 * 1024
_QUERY = frozenset({"select", "with", "values", "table"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result.

    ``type``: the object id; ``modifier``: precision and scale as Postgres keeps them (-1: none).
    """

    name: str
    type: int
    modifier: int


class Rows:
    """An open cursor: ``columns``, and an iterator of lists of rows.

    The values are JSON values (rows.py) in the order of the columns.
    """

    def __init__(self, session: Session, text: str) -> None:
        self._session = session
        self._text = text
        self._transformer = adapt.Transformer(session.connection)
        result = self._fetch(0)
        names = unique_names([(result.fname(at) or b"").decode() for at in range(result.nfields)])
        self.columns = tuple(Column(name, result.ftype(at), result.fmod(at)) for at, name in enumerate(names))

    def __iter__(self) -> Iterator[Sequence[tuple[Any, ...]]]:
        wanted = FIRST_ROWS
        while True:
            result = self._fetch(wanted)
            rows = load_rows(self._transformer, result)
            if rows:
                yield rows
            if len(rows) < wanted:
                self._session.command(f"CLOSE {CURSOR}")
                return
            wanted = _next_rows(wanted, _size(result))

    def _fetch(self, count: int) -> pq.abc.PGresult:
        session = self._session
        if session.cancelled():
            raise TaskError(
                "the execution was cancelled; its query was stopped", kind="cancelled", code="cancelled"
            )
        session.connection.pgconn.send_query_params(f"FETCH FORWARD {count} FROM {CURSOR}".encode(), None)
        result = list(session.results())[-1]
        if result.status != ExecStatus.TUPLES_OK:
            raise failure_of(result, self._text)
        return result


def select_rows(session: Session, statement: RenderedStatement) -> Rows:
    """Open the cursor of a query in the session's transaction; one at a time.

    Raises TaskError.
    """
    numbers: dict[str, int] = {}

    def placeholder(name: str) -> str:
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    text = native_text(statement, placeholder)
    if _QUERY.isdisjoint(leading_words(text, 1, "(")):
        raise TaskError(
            f"only rows of a query can be streamed, and this is none: {first_line(text)}",
            kind="client_error",
            code="not_a_query",
            hint="SELECT, VALUES, TABLE or WITH … SELECT; leave `result` out for what a change returns",
        )
    query = text_bytes(f"DECLARE {CURSOR} NO SCROLL CURSOR FOR {text}", "the statement")
    session.send(query, [statement.params[name] for name in numbers], text)
    failed = [result for result in session.results() if result.status == ExecStatus.FATAL_ERROR]
    if failed:
        raise failure_of(failed[0], text)
    return Rows(session, text)


def _size(result: pq.abc.PGresult) -> int:
    """Estimate the bytes of the rows from a sample of them."""
    sample = range(0, result.ntuples, max(1, result.ntuples // 8))
    fields = range(result.nfields)
    found = sum(len(result.get_value(row, field) or b"") for row in sample for field in fields)
    return max(1, found) * result.ntuples // max(1, len(sample))


def _next_rows(count: int, size: int) -> int:
    """At most ten times as many as before: the rows to come may be wider than those that came."""
    return max(1, min(MOST_ROWS, count * 10, count * PIECE_BYTES // size))
