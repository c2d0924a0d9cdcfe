"""Statements on one connection: sent, bounded in time, and read in pieces bounded in size.

psycopg's own cursors either hold a whole result or cannot tell the columns of an empty one, so this speaks to
libpq through ``psycopg.pq``: one statement at a time (the protocol refuses a second one hidden in the text), rows
in chunks, and a clock on every wait.
"""

from __future__ import annotations

import re
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import adapt, pq
from psycopg.abc import Transformer
from psycopg.pq import DiagnosticField, ExecStatus

from noetl.caching.lru_cache import LruCache
from noetl.domain.errors import TaskError
from noetl.kinds.postgres.leading_words import leading_words
from noetl.kinds.postgres.values import TEXT, UNTYPED, Wire, dump, dump_for, is_open, text_bytes
from noetl.kinds.rows.database import Table
from noetl.kinds.support.sql_params import first_line, native_text
from noetl.templating.contract import RenderedStatement

CHUNK_ROWS = 100
LOOK_UP_SECONDS = 0.5
"""How often a waiting call looks whether its execution was cancelled."""
RESET = "DISCARD ALL"
"""Ends what outlives a transaction: settings, roles, temporary tables, prepared statements, LISTEN, session locks."""
_TYPELESS = re.compile(r"parameter \$(\d+)")
_AS_TEXT: LruCache[bytes, frozenset[int]] = LruCache(1000)
"""Statements with parameters whose type the server could not find out (42P18), and the numbers of those: they are sent as text."""
_LEARNING = threading.Lock()
"""Several calls of a statement may find out about its parameters at once."""
GRACE_SECONDS = 1.0
"""The server ends a statement by its own clock; this much later the client stops waiting for it."""

_CONTROL = frozenset({"begin", "start", "commit", "end", "abort"})
_DEADLOCKS = frozenset({"40P01", "40001"})


@dataclass(slots=True)
class Session:
    """A connection while one task uses it."""

    connection: psycopg.Connection[Any]
    deadline: float
    """On ``time.monotonic()``."""
    result_limit: int
    cancelled: Callable[[], bool]
    _is_clean: bool = False
    _sent: bytes = b""
    _as_text: frozenset[int] = frozenset()
    """The parameters of what was sent that were known to need text."""
    _looked: float = field(default_factory=time.monotonic)
    """When it was last looked up whether the execution is cancelled."""

    def begin(self) -> None:
        """Start the transaction, with what is left of the time as the server's own limit."""
        self.command(f"BEGIN; SET LOCAL statement_timeout = {self._milliseconds_left()}")

    def begin_without_transaction(self) -> None:
        """For a statement that refuses to run inside one."""
        self.command(f"SET statement_timeout = {self._milliseconds_left()}")

    def commit(self) -> None:
        self.command("COMMIT")

    def finish(self) -> None:
        """Commit, and undo what the task left in its session, in one round trip."""
        pgconn = self.connection.pgconn
        pgconn.enter_pipeline_mode()
        for text in ("COMMIT", RESET):
            pgconn.send_query_params(text.encode(), None)
            pgconn.pipeline_sync()
        # Three times what is there until nothing more belongs to it: the commit, the reset behind its mark, the last mark.
        committed, reset, _ = (list(self.results()) for _ in range(3))
        pgconn.exit_pipeline_mode()
        for result in committed:
            if result.status == ExecStatus.FATAL_ERROR:
                raise failure_of(result, "COMMIT")
        self._is_clean = all(result.status != ExecStatus.FATAL_ERROR for result in reset)

    def rollback(self) -> None:
        self.command("ROLLBACK")

    def clean(self) -> bool:
        """Undo what a task left: its transaction, settings, roles, temporary tables, locks.

        False when the connection cannot be used again.
        """
        status = self.connection.pgconn.transaction_status
        if self._is_clean:
            return status == pq.TransactionStatus.IDLE
        if self.connection.closed or status in (pq.TransactionStatus.ACTIVE, pq.TransactionStatus.UNKNOWN):
            return False
        self.deadline = time.monotonic() + GRACE_SECONDS
        try:
            if status != pq.TransactionStatus.IDLE:
                self.rollback()
            self.command(RESET)
        except TaskError:
            return False
        return True

    def run(self, statement: RenderedStatement, *, keep: bool) -> dict[str, Any]:
        """Run a statement; return ``{columns, rows, row_count}`` and/or ``{affected_rows}``.

        With ``keep=False`` rows are only counted.

        Raises TaskError.
        """
        numbers: dict[str, int] = {}

        def placeholder(name: str) -> str:
            return f"${numbers.setdefault(name, len(numbers) + 1)}"

        text = native_text(statement, placeholder)
        _refuse_control(text)
        query = text_bytes(text, "the statement")
        values = [statement.params[name] for name in numbers]
        self.send(query, values, text)
        return self._read(text, keep)

    def send(self, query: bytes, values: list[Any], text: str) -> None:
        self._is_clean = False
        self._sent, self._as_text = query, _AS_TEXT.get(query) or frozenset()
        pgconn = self.connection.pgconn
        if not any(is_open(value) for value in values):
            wires = _wires(values, self._as_text)
            pgconn.send_query_params(query, [w[1] for w in wires], param_types=[w[0] for w in wires])
        else:
            self._send_described(query, values, text)
        if pq.version() >= 170000:
            pgconn.set_chunked_rows_mode(CHUNK_ROWS)
        else:
            pgconn.set_single_row_mode()

    def _send_described(self, query: bytes, values: list[Any], text: str) -> None:
        """Ask for the type of each list before writing it, without ending the transaction."""
        pgconn = self.connection.pgconn
        in_transaction = pgconn.transaction_status == pq.TransactionStatus.INTRANS
        if in_transaction:
            self.command("SAVEPOINT noetl_types")
        wires = _wires(values, self._as_text)
        oids = [UNTYPED if is_open(value) else wire[0] for value, wire in zip(values, wires, strict=True)]
        pgconn.send_prepare(b"", query, oids)
        prepared = list(self.results())[-1]
        if prepared.status != ExecStatus.COMMAND_OK:
            if in_transaction:
                self.command("ROLLBACK TO noetl_types")
            pgconn.send_query_params(query, [w[1] for w in wires], param_types=[w[0] for w in wires])
            return
        pgconn.send_describe_prepared(b"")
        described = list(self.results())[-1]
        if described.status != ExecStatus.COMMAND_OK:
            raise failure_of(described, text)
        places = [described.param_type(index) or UNTYPED for index in range(described.nparams)]
        pgconn.send_query_prepared(b"", [dump_for(*pair) for pair in zip(places, values, strict=True)])

    def learn_type(self, error: TaskError) -> bool:
        """Remember a parameter whose type the server could not find out.

        Return False when ``error`` does not say that, or the parameter was sent as text.
        """
        found = _TYPELESS.search(error.message) if error.code == "42P18" else None
        if found is None:
            return False
        number = int(found[1]) - 1
        if number in self._as_text:
            return False
        with _LEARNING:
            _AS_TEXT.put(self._sent, (_AS_TEXT.get(self._sent) or frozenset()) | {number})
        return True

    def _read(self, text: str, keep: bool) -> dict[str, Any]:
        table: Table | None = None
        transformer = adapt.Transformer(self.connection)
        affected: int | None = None
        error: TaskError | None = None
        for result in self.results():
            if result.status in (ExecStatus.TUPLES_CHUNK, ExecStatus.SINGLE_TUPLE, ExecStatus.TUPLES_OK):
                if table is None:
                    table = Table(_column_names(result), self.result_limit, keep=keep)
                table.add(load_rows(transformer, result))
            elif result.status == ExecStatus.COMMAND_OK:
                pass
            elif result.status in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH):
                self.connection.close()
                raise TaskError(
                    "COPY from or to the client is not possible in a task",
                    kind="client_error",
                    code="copy_refused",
                    hint="the parameter `copy` writes rows of a result, `result: csv` reads rows into one",
                )
            elif result.status != ExecStatus.EMPTY_QUERY:
                error = failure_of(result, text)
            if result.command_tuples is not None and not _is_select(result):
                affected = result.command_tuples
        if error is not None:
            raise error
        if table is None:
            return {"affected_rows": affected or 0}
        return table.result() if affected is None else {**table.result(), "affected_rows": affected}

    def command(self, text: str) -> None:
        """Statements without values or rows, in one round trip."""
        self._is_clean = False
        self.connection.pgconn.send_query(text.encode())
        failed = [result for result in self.results() if result.status == ExecStatus.FATAL_ERROR]
        if failed:
            raise failure_of(failed[0], text)

    def results(self) -> Iterator[pq.abc.PGresult]:
        """Yield every result of what was sent, each as soon as it is there.

        Raises TaskError (time, connection).
        """
        pgconn = self.connection.pgconn
        try:
            with selectors.PollSelector() as selector:
                selector.register(pgconn.socket, selectors.EVENT_READ)
                while pgconn.flush():
                    selector.modify(pgconn.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
                    self.wait(selector)
                    pgconn.consume_input()
                selector.modify(pgconn.socket, selectors.EVENT_READ)
                while True:
                    while pgconn.is_busy():
                        self.wait(selector)
                        pgconn.consume_input()
                    result = pgconn.get_result()
                    if result is None:
                        return
                    yield result
        except (psycopg.OperationalError, OSError) as error:
            raise TaskError(
                f"the connection to the database was lost: {' '.join(str(error).split())[:200]}",
                kind="db_connection",
                code="08006",
                retryable=True,
                details=_details("08006"),
            ) from error

    def wait(self, selector: selectors.BaseSelector) -> None:
        left = self.deadline + GRACE_SECONDS - time.monotonic()
        ready = left > 0 and bool(selector.select(min(left, LOOK_UP_SECONDS)))
        # Not only in silence: rows may arrive all the time.
        if ready and time.monotonic() - self._looked < LOOK_UP_SECONDS:
            return
        self._looked = time.monotonic()
        if self.cancelled():
            self._stop()
            raise TaskError(
                "the execution was cancelled; the statement was stopped", kind="cancelled", code="cancelled"
            )
        if left <= 0:
            self._stop()
            raise TaskError(
                "the database did not answer in time",
                kind="db_timeout",
                code="57014",
                details=_details("57014"),
            )

    def _stop(self) -> None:
        """Ask the server to stop, and never use this connection again."""
        try:
            self.connection.cancel_safe(timeout=GRACE_SECONDS)
        except psycopg.Error:
            pass
        finally:
            self.connection.close()

    def _milliseconds_left(self) -> int:
        return max(1, int((self.deadline - time.monotonic()) * 1000))


def _wires(values: list[Any], as_text: frozenset[int]) -> list[Wire]:
    """Encode the values for the server; ``as_text``: those that need a type and have none."""
    wires = [dump(value) for value in values]
    for number in as_text:
        if number < len(wires) and wires[number][0] == UNTYPED:
            wires[number] = (TEXT, wires[number][1])
    return wires


def _is_select(result: pq.abc.PGresult) -> bool:
    """Report whether the count of the command tag is of rows read, not of rows changed."""
    return (result.command_status or b"").split(b" ")[0] not in (
        b"INSERT",
        b"UPDATE",
        b"DELETE",
        b"MERGE",
        b"COPY",
    )


def _column_names(result: pq.abc.PGresult) -> list[str]:
    return [(result.fname(index) or b"").decode() for index in range(result.nfields)]


def load_rows(transformer: Transformer, result: pq.abc.PGresult) -> list[tuple[Any, ...]]:
    """Load a result's rows as JSON values. Raises TaskError(kind="parse")."""
    if not result.ntuples:
        return []
    transformer.set_pgresult(result)
    try:
        return transformer.load_rows(0, result.ntuples, tuple)
    except (psycopg.Error, ValueError, RecursionError) as error:
        raise TaskError(
            f"a row cannot be read: {type(error).__name__}: {error}",
            kind="parse",
            code="row_unreadable",
            hint="cast the column to text",
        ) from error


def _refuse_control(text: str) -> None:
    """Refuse statements that control transactions: a task is a transaction of its own."""
    first, second, *_ = [*leading_words(text, 2), "", ""]
    if (
        first in _CONTROL
        or (first == "rollback" and second != "to")
        or (first, second) == ("prepare", "transaction")
    ):
        raise TaskError(
            f"{first.upper()} is not possible in a task: its statements already run in one transaction",
            kind="client_error",
            code="transaction_control",
            hint="leave it out; statements that must stand alone belong into a task of their own",
        )


def failure_of(result: pq.abc.PGresult, text: str) -> TaskError:
    """Convert the server's error to a TaskError with its SQLSTATE as ``code``."""

    def field(name: DiagnosticField) -> str:
        return (result.error_field(name) or b"").decode("utf-8", "replace")

    sqlstate = field(DiagnosticField.SQLSTATE) or "XX000"
    kind, retryable = _kind_of(sqlstate)
    details = _details(sqlstate)
    message = f"{field(DiagnosticField.MESSAGE_PRIMARY)[:500]} [{sqlstate}] in: {first_line(text)}"
    position = field(DiagnosticField.STATEMENT_POSITION)
    if position.isdigit():
        before = text[: int(position) - 1]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        details |= {"statement_line": line, "statement_column": column}
        message += f" (line {line}, column {column})"
    for name in ("MESSAGE_DETAIL", "CONSTRAINT_NAME", "TABLE_NAME", "COLUMN_NAME"):
        if value := field(DiagnosticField[name]):
            details[name.lower().removeprefix("message_")] = value[:500]
    hint = field(DiagnosticField.MESSAGE_HINT)[:300] or _HINTS.get(sqlstate)
    return TaskError(message, kind=kind, code=sqlstate, hint=hint, retryable=retryable, details=details)


_HINTS = {
    "42P18": "say what the value is: write {{ … }}::text",
    "42P10": "an upsert needs a unique index or a primary key of exactly the columns of its key",
    "42601": "a name from a template needs | identifier, a value must not stand where SQL wants a keyword",
}


def _kind_of(sqlstate: str) -> tuple[str, bool]:
    """Kind of error and whether trying again can help."""
    if sqlstate in _DEADLOCKS:
        return "db_deadlock", True
    if sqlstate == "57014":
        return "db_timeout", False
    if sqlstate in ("53300", "55P03") or sqlstate.startswith(("08", "57P")):
        return "db_connection", True
    if sqlstate.startswith("23"):
        return "db_constraint", False
    if sqlstate.startswith("28") or sqlstate == "42501":
        return "auth", False
    return "client_error", False


def _details(sqlstate: str) -> dict[str, Any]:
    return {"sqlstate": sqlstate, "pg": {"code": sqlstate, "sqlstate": sqlstate}}
