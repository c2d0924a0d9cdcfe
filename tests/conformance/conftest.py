"""Where cases run: in memory with virtual time, and on the embedded Postgres."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from noetl.adapters.memory import MemoryExecutionStore, MemoryResultStore
from noetl.domain.commands import Command
from noetl.domain.errors import TaskError
from noetl.domain.events import Event
from noetl.domain.kinds import Credential
from noetl.ports.execution_store import ExecutionStore
from noetl.runtime.programs import Programs
from noetl.services.run_command import run_command
from noetl.services.worker_deps import WorkerDeps
from tests.conformance.driver import Time, VirtualClock
from tests.conformance.scripted import ScriptedRegistry


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-history", action="store_true", help="write history.yaml of every case (then read the diff)"
    )


@pytest.fixture
def update_history(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-history", default=False))


@dataclass
class MemoryBackend:
    tolerance = 0.001
    """How exactly virtual time is kept, in seconds."""

    time: VirtualClock = field(default_factory=VirtualClock)
    results: MemoryResultStore = field(default_factory=MemoryResultStore)

    def __post_init__(self) -> None:
        self.store: ExecutionStore = MemoryExecutionStore(self.time.epoch, self.results)


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


@dataclass
class PostgresBackend:
    tolerance = 5.0
    """Real time passes as well."""

    store: ExecutionStore
    results: MemoryResultStore
    time: Time


@pytest.fixture
def memory_backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture(scope="session")
def case_store(postgres: Any) -> Iterator[tuple[str, ExecutionStore, MemoryResultStore]]:
    """One database for all cases: executions do not share anything but its tables."""
    import psycopg
    from psycopg import sql

    from noetl.adapters.postgres import PostgresExecutionStore

    name = f"conformance_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    make = sql.SQL("CREATE DATABASE {} TEMPLATE noetl_template STRATEGY FILE_COPY").format(
        sql.Identifier(name)
    )
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
        connection.execute(make)
    results = MemoryResultStore()
    store = PostgresExecutionStore(postgres.dsn(name), results=results)
    yield postgres.dsn(name), store, results
    store.close()


@pytest.fixture
def postgres_backend(case_store: tuple[str, ExecutionStore, MemoryResultStore]) -> PostgresBackend:
    database, store, results = case_store
    return PostgresBackend(store, results, PostgresTime(database))


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_backend")


class NoCredentials:
    def get(self, name: str, execution_id: int) -> Credential:
        raise TaskError(f"there is no credential {name}", kind="auth", code="credential_not_found")


@contextmanager
def real_worker(tools: ScriptedRegistry, backend: Any, programs: Programs) -> Iterator[Callable[..., None]]:
    deps = WorkerDeps(
        programs=programs,
        registry=tools,
        results=backend.results,
        credentials=NoCredentials(),
        clock=backend.time.now,
        chance=lambda: 0.0,
    )

    def run(command: Command, emit: Callable[[Event], None]) -> None:
        run_command(command, deps, emit)

    yield run


@pytest.fixture
def worker() -> Any:
    return real_worker
