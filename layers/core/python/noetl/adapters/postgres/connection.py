"""Talking to Postgres: a few connections, one statement per round trip, rows as bytes.

The driver's libpq layer is used directly: statements are prepared once per connection (or sent unnamed where a proxy forbids session
state), parameters are text made by ``literals``, and nothing is adapted per value. Every statement is its own transaction.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import psycopg
from psycopg import Connection, conninfo, errors, generators, pq, waiting

from noetl.adapters.postgres import server_machine, silence_watchdog
from noetl.adapters.postgres.literals import numbers
from noetl.adapters.postgres.queries import Query, query
from noetl.adapters.postgres.session_settings import OPTIONS
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.shortages import shortage_in
from noetl.ports.executions.execution_store import ExecutionIdTakenError, VersionConflictError
from noetl.system_calls import deferred_work, short_calls

Row = tuple[bytes | None, ...]
CONFLICTS = frozenset({b"NE001", b"23505"})
TAKEN = {b"NE003": "children", b"NE004": "starts"}
"""What the ids are for that ``noetl.refuse_taken`` names."""
"""A refusal of our own functions; a row that exists already (an event that was applied)."""
_FULL_QUEUE = "failed: Resource temporarily unavailable"
"""A server that has too many callers at its socket; the machine is short of nothing."""
_NOBODY = "failed: No such file or directory"
"""There is no socket: the server has ended."""
_NOBODY_HINT = (
    "its server has ended; the log of `noetl serve`, or postgres.log in the home folder, says what it lacks"
)
TROUBLES = frozenset({b"08", b"53", b"57", b"55"})
"""Classes of errors that trying again may cure: connection, resources, operator, locks."""
FAULTS = frozenset({b"58", b"XX"})
"""Classes of errors of the server's system: damage, or what its machine is short of."""
CANCELLED = b"57014"
"""A statement that took longer than its limit. It says nothing about others: one may wait for a row that an operator has locked."""
ROLLED_BACK = b"40"
"""Class of errors of a transaction that gave way to others (a deadlock): it did nothing, and can be tried again at once."""
UNFIT = frozenset({b"0A", b"25", b"28", b"3D", b"3F", b"42", b"58", b"F0", b"XX"})
"""Classes of errors of a database as a whole: read-only, without our tables, functions or rights, damaged. No data of an execution is at
fault; what remains (a check, a value or a row of an index that is too large) is about what was to be written."""
UNKNOWN = "outcome_unknown"
"""Code of an error after which it is unknown whether the statement was carried out: the answer was lost."""
SILENT = "database_silent"
"""The same, when no answer came for long: trying again at once would take as long."""
CONNECT_SECONDS = 10
_DONE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


LOOK_SECONDS = 1.0
"""How long a wait for an answer lasts before signals are looked at."""


class Session:
    """One connection and the statements prepared on it."""

    def __init__(self, dsn: str, *, pooled: bool) -> None:
        wanted: dict[str, Any] = {"application_name": "noetl", "connect_timeout": CONNECT_SECONDS}
        if not pooled:
            given = conninfo.conninfo_to_dict(dsn).get("options")
            wanted["options"] = f"{given} {OPTIONS}" if given else OPTIONS
        self.connection: Connection = psycopg.connect(
            conninfo.make_conninfo(dsn, **wanted), autocommit=True, prepare_threshold=None
        )
        self.dsn, self.pgconn = dsn, self.connection.pgconn
        self.pid, self.made, self.lost = self.pgconn.backend_pid, time.monotonic(), False
        self._prepared: set[str] | None = None if pooled else set()
        self.since, self.silent = 0.0, False
        self._input = short_calls.Readable(self.pgconn.socket)
        silence_watchdog.watch(self)

    @property
    def handle(self) -> int:
        return self.pgconn.socket

    def broken(self) -> bool:
        """Whether the server has hung up: it says nothing else to an idle connection."""
        if self.pgconn.status != pq.ConnStatus.OK:
            return True
        return self._input()

    def run(self, statement: Query, parameters: list[bytes | None]) -> list[Row]:
        """Run a statement on this session.

        Raises VersionConflictError, ExecutionIdTakenError, InfrastructureError, or psycopg.Error for a statement that is wrong.
        """
        self.since = time.monotonic()
        try:
            result = self._send(statement, parameters)
        except psycopg.OperationalError as error:
            raise self._lost_touch(error) from error
        finally:
            self.since = 0.0
        if result.status not in _DONE:
            raise self._failure(result)
        return [
            tuple([result.get_value(row, column) for column in range(result.nfields)])
            for row in range(result.ntuples)
        ]

    def _send(self, statement: Query, parameters: list[bytes | None]) -> pq.abc.PGresult:
        if self._prepared is None:
            return self.pgconn.exec_params(statement.text, parameters)
        name = statement.name.encode()
        if statement.name not in self._prepared:
            prepared = self.pgconn.prepare(name, statement.text)
            if prepared.status != pq.ExecStatus.COMMAND_OK:
                return prepared
            self._prepared.add(statement.name)
        if not deferred_work.has_deferred():
            return self.pgconn.exec_prepared(name, cast(Any, parameters))  # its stub forgets NULL
        self.pgconn.send_query_prepared(name, cast(Any, parameters))
        deferred_work.do_deferred()  # the server is at work meanwhile
        answers: list[pq.abc.PGresult] = waiting.wait(
            generators.execute(self.pgconn), self.pgconn.socket, LOOK_SECONDS
        )
        return answers[-1]

    def _lost_touch(self, error: BaseException) -> InfrastructureError:
        self.lost = True
        if not self.silent:
            return unreachable(error, self.dsn, code=UNKNOWN)
        return InfrastructureError(
            f"the database has not answered for {silence_watchdog.ANSWER_SECONDS:g} s",
            code=SILENT,
            hint="it hangs, or the network between does; what was asked for may have been done",
        )

    def _failure(self, result: pq.abc.PGresult) -> Exception:
        state = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
        if state in CONFLICTS:
            return VersionConflictError(_lost(result))
        if state in TAKEN:
            return ExecutionIdTakenError(**{TAKEN[state]: _lost(result)})
        error = errors.error_from_result(result)
        if not state or self.pgconn.status != pq.ConnStatus.OK:
            return self._lost_touch(error)
        if state[:2] == ROLLED_BACK:
            return InfrastructureError(
                f"the database undid this in favour of others: {str(error).strip()}",
                code="database_contention",
            )
        if state == CANCELLED:
            return InfrastructureError(
                f"the database cancelled a statement: {str(error).strip()}",
                code="database_slow",
                hint="it waits for a lock, or has too much to do; others may be answered",
            )
        if state[:2] in TROUBLES or (state[:2] in FAULTS and shortage_in(str(error)) is not None):
            return unreachable(error, self.dsn)
        if state[:2] in UNFIT:
            return InfrastructureError(
                f"the database refuses a statement of the engine: {str(error).strip()}",
                code="database_unfit",
                hint="migrate it to this version (`noetl db migrate`), make it writable, and give its role the rights it needs",
            )
        if state == b"22P05":
            return InvalidInputError(f"a name or id cannot be kept: {error}", code="unstorable_text")
        return error

    def close(self) -> None:
        self.connection.close()


def _lost(result: pq.abc.PGresult) -> tuple[int, ...]:
    """Return the executions that a refusal names.

    It is ``12,13``, or ``Key (execution_id, event_id)=(12, …) already exists.``
    """
    detail = (result.error_field(pq.DiagnosticField.MESSAGE_DETAIL) or b"").decode(errors="replace")
    listed = detail.partition("=(")[2].partition(",")[0] if "=(" in detail else detail
    return tuple(int(part) for part in listed.split(",") if part.isdigit())


def unreachable(error: BaseException, dsn: str, code: str = "database_unreachable") -> InfrastructureError:
    """Describe an outage in the database's words.

    What its machine is short of comes with a remedy, which says when that is another machine (``dsn``).
    """
    if isinstance(error, InfrastructureError):
        return InfrastructureError(error.message, code=code, hint=error.hint)
    words = str(error).strip()
    lacking = None if _FULL_QUEUE in words else shortage_in(words)
    if lacking is None:
        hint = _NOBODY_HINT if _NOBODY in words else None
        return InfrastructureError(f"the database does not answer: {words}", code=code, hint=hint)
    first, _, _ = words.partition("\n")
    return InfrastructureError(
        f"the database cannot do its work, because {lacking.reason}: {first}",
        code=code,
        hint=server_machine.remedy(lacking, error, dsn),
    )


MOST = 32
"""Sessions at a time; a server of Postgres has about a hundred for everybody."""
PATIENCE = 5.0
"""Seconds that a statement waits for a session before it is refused."""
IDLE_SECONDS = 30.0
"""A session that was idle for so long is closed, down to KEPT."""
KEPT = 2


class Database:
    """A small pool of sessions; a thread that works alone always gets the same one.

    A thread that finds all of them in use waits a while.
    ``pooled``: the server is behind RDS Proxy or pgbouncer: no prepared statements, no connection options (the role has the settings).
    ``round_trips`` counts statements sent (tests hold methods to their budget with it).
    """

    def __init__(
        self,
        dsn: str,
        *,
        pooled: bool = False,
        most: int = MOST,
        patience: float = PATIENCE,
        renewed: Callable[[], str] | None = None,
    ) -> None:
        """Create the pool; it opens sessions on demand.

        ``renewed``: returns the connection string as it is now; called when connecting fails (a password may have been rotated).
        """
        self._dsn = dsn
        self._renewed = renewed
        self._pooled = pooled
        self._patience = patience
        self._free = threading.BoundedSemaphore(most)
        self._idle: deque[tuple[Session, float]] = deque()
        self._lock = threading.Lock()
        self._closings = 0
        self._lost: list[Session] = []
        """Sessions that broke within a statement: their server processes may still be at it."""
        self._ending = threading.Lock()
        self.round_trips = 0

    def run(self, name: str, values: Mapping[str, bytes | None]) -> list[Row]:
        """Run a named query.

        Raises VersionConflictError, ExecutionIdTakenError, InfrastructureError, psycopg.Error.
        """
        statement = query(name)
        parameters = statement.bind(values)
        with self._session() as session:
            self.round_trips += 1
            return session.run(statement, parameters)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """Raises InfrastructureError(code="database_busy") when no session gets free."""
        if not self._free.acquire(timeout=self._patience):
            raise InfrastructureError(
                f"every connection to the database has been in use for {self._patience:g} s",
                code="database_busy",
                hint="try again in a moment",
            )
        try:
            began = self._closings
            session = self._taken() or self._connect()
            try:
                if self._lost:
                    self._end_lost(session)
                yield session
            finally:
                if session.lost and not self._pooled:
                    self._lost.append(session)
                self._keep(session, began)
                if session.silent:
                    self.close()  # the others were made at the same server
        finally:
            self._free.release()

    def _end_lost(self, session: Session) -> None:
        """End statements that still run although their connection broke.

        What follows depends on whether they were carried out: freeing what they may have given to this process, say.
        Raises InfrastructureError.
        """
        with self._ending:
            lost = list(self._lost)
            if not lost:
                return
            statement, now = query("end_sessions"), time.monotonic()
            values = {
                "pids": numbers([one.pid for one in lost]),
                "ages": numbers([now - one.made for one in lost]),
            }
            try:
                session.run(statement, statement.bind(values))
            except (InfrastructureError, psycopg.Error) as error:
                if session.lost:
                    raise unreachable(error, session.dsn) from error  # what the caller asks for was not sent
                # This role may not, say. What it cannot end has a time limit.
            del self._lost[: len(lost)]

    def _taken(self) -> Session | None:
        """The idle session that was used last and is still good."""
        while True:
            with self._lock:
                session = self._idle.pop()[0] if self._idle else None
            if session is None or not session.broken():
                return session
            session.close()

    def _connect(self) -> Session:
        try:
            return Session(self._dsn, pooled=self._pooled)
        except psycopg.OperationalError as error:
            before, self._dsn = self._dsn, self._renewed() if self._renewed is not None else self._dsn
            if self._dsn == before:
                raise unreachable(error, before) from error
        try:
            return Session(self._dsn, pooled=self._pooled)
        except psycopg.OperationalError as error:
            raise unreachable(error, self._dsn) from error

    def _keep(self, session: Session, began: int) -> None:
        """Keep a session for the next use, or close it.

        ``began``: how often this had been closed when the session was taken. What was in use then is closed now.
        """
        now = time.monotonic()
        old: list[Session] = []
        with self._lock:
            idle = session.pgconn.transaction_status == pq.TransactionStatus.IDLE
            if idle and began == self._closings:
                self._idle.append((session, now))
            else:
                old.append(session)
            while len(self._idle) > KEPT and self._idle[0][1] < now - IDLE_SECONDS:
                old.append(self._idle.popleft()[0])
        for one in old:
            one.close()

    def close(self) -> None:
        """Close idle sessions, and those in use when they are returned.

        A later call opens new ones (scale-to-zero databases pause).
        """
        with self._lock:
            self._closings += 1
            idle = list(self._idle)
            self._idle.clear()
        for session, _ in idle:
            session.close()
