"""Where cases run: in memory with virtual time, and on the embedded Postgres."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from noetl.adapters.memory import MemoryResultStore
from noetl.adapters.postgres import PostgresExecutionStore
from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.ports.executions.execution_store import ExecutionStore, Loaded, LoadRequest
from noetl.testing.driver import EPOCH, Time
from noetl.testing.memory import MemoryBackend, real_worker
from tests.conformance.memory import Looks, explained_backend
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
    looks: Looks = field(default_factory=lambda: Looks(3, 1))

    def now(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        import psycopg

        self.looks.look(EPOCH + self.seconds)
        self.seconds += seconds
        with psycopg.connect(self.database) as connection:
            by = {"by": f"{seconds} seconds"}
            connection.execute("UPDATE noetl.timer SET fire_at = fire_at - %(by)s::interval", by)
            connection.execute("UPDATE noetl.command SET not_before = not_before - %(by)s::interval", by)
            connection.execute("UPDATE noetl.limit_key SET tat = tat - %(by)s::interval", by)


class LaterStore:
    """A store whose clock shows the time that passed as well: what counts from the start of an execution is not moved closer."""

    def __init__(self, store: ExecutionStore, time: PostgresTime) -> None:
        self._store = store
        self._time = time

    def load(self, requests: Sequence[LoadRequest]) -> Loaded:
        loaded = self._store.load(requests)
        return msgspec.structs.replace(loaded, now=loaded.now + self._time.seconds)

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
    backend, clock = explained_backend()
    yield backend
    clock.looks.look(clock.epoch())


@pytest.fixture(scope="session")
def case_store(databases: Databases) -> Iterator[tuple[str, PostgresExecutionStore, MemoryResultStore]]:
    """One database for all cases: executions do not share anything but its tables."""
    results = MemoryResultStore()
    with databases.fresh() as dsn:
        store = PostgresExecutionStore(dsn)
        yield dsn, store, results
        store.close()


@pytest.fixture
def postgres_backend(case_store: tuple[str, PostgresExecutionStore, MemoryResultStore]) -> PostgresBackend:
    database, store, results = case_store
    time = PostgresTime(database)
    time.looks.of(store, PostgresInspection(store.database))
    return PostgresBackend(cast(ExecutionStore, LaterStore(store, time)), results, time)


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_backend")


@pytest.fixture
def worker() -> Any:
    return real_worker
