"""Where cases run: in memory with virtual time, and on the embedded Postgres."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import time as clock
from typing import Any, cast

import msgspec
import pytest

from noetl.adapters.memory import MemoryResultStore
from noetl.adapters.postgres import PostgresExecutionStore
from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.domain.events import Event
from noetl.domain.state import TERMINAL
from noetl.ports.executions.execution_store import Change, Committed, ExecutionStore, Loaded, LoadRequest
from noetl.testing.driver import Time
from noetl.testing.memory import MemoryBackend, real_worker
from tests.conformance.memory import ExplainedBackend, Looks
from tests.databases import Databases


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-history", action="store_true", help="write history.yaml of every case (then read the diff)"
    )


@pytest.fixture
def update_history(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-history", default=False))


@dataclass
class PostgresTime:
    """Time of a database: it cannot be set, so what is due later is moved closer."""

    database: str
    seconds: float = 0.0

    def now(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        import psycopg

        self.seconds += seconds
        with psycopg.connect(self.database) as connection:
            by = {"by": f"{seconds} seconds"}
            connection.execute("UPDATE noetl.timer SET fire_at = fire_at - %(by)s::interval", by)
            connection.execute("UPDATE noetl.command SET not_before = not_before - %(by)s::interval", by)
            connection.execute("UPDATE noetl.limit_key SET tat = tat - %(by)s::interval", by)


class LaterStore:
    """A store whose clock shows the time that passed as well: what counts from the start of an execution is not moved closer.

    `analyze` has to explain the executions of its test at every moment: before events are handled, and whenever time passes.
    """

    def __init__(self, store: PostgresExecutionStore, time: PostgresTime) -> None:
        self._store = store
        self._time = time
        self._looks = Looks(
            cast(ExecutionStore, store), PostgresInspection(store.database), lambda: clock() + time.seconds
        )
        self._mine: set[int] = set()

    def load(self, requests: Sequence[LoadRequest]) -> Loaded:
        self.look()
        loaded = self._store.load(requests)
        return msgspec.structs.replace(loaded, now=loaded.now + self._time.seconds)

    def commit(self, changes: Sequence[Change], owner: str | None = None) -> Committed:
        self._mine.update(change.execution_id for change in changes)
        return self._store.commit(changes, owner)

    def due_timers(self, owner: str, limit: int) -> tuple[Sequence[Event], float | None]:
        self.look()
        return self._store.due_timers(owner, limit)

    def look(self) -> None:
        """Look at what was written since it was seen at its end."""
        found = [info for info in map(self._store.info, sorted(self._mine)) if info is not None]
        self._looks.look(found)
        self._mine -= {info.execution_id for info in found if info.status in TERMINAL}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@dataclass
class PostgresBackend:
    tolerance = 5.0
    """Real time passes as well."""

    store: ExecutionStore
    results: MemoryResultStore
    time: Time


@pytest.fixture
def memory_backend() -> Iterator[MemoryBackend]:
    backend = ExplainedBackend()
    yield backend
    backend.look()


@pytest.fixture(scope="session")
def case_store(databases: Databases) -> Iterator[tuple[str, PostgresExecutionStore, MemoryResultStore]]:
    """One database for all cases: executions do not share anything but its tables."""
    results = MemoryResultStore()
    with databases.fresh() as dsn:
        store = PostgresExecutionStore(dsn)
        yield dsn, store, results
        store.close()


@pytest.fixture
def postgres_backend(
    case_store: tuple[str, PostgresExecutionStore, MemoryResultStore],
) -> Iterator[PostgresBackend]:
    database, store, results = case_store
    time = PostgresTime(database)
    later = LaterStore(store, time)
    yield PostgresBackend(cast(ExecutionStore, later), results, time)
    later.look()


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_backend")


@pytest.fixture
def worker() -> Any:
    return real_worker
