"""Both kinds of store behind one harness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from noetl.adapters.memory import MemoryCatalog, MemoryExecutionStore, MemoryResultStore
from noetl.ports.executions.execution_store import ExecutionStore, LoadRequest, Snapshot
from tests.contract.builders import EID, Make
from tests.contract.clouds import Clock
from tests.virtual_time import DatabaseClock


@dataclass
class Harness:
    """A store under test. ``sleep`` lets its clock pass."""

    store: ExecutionStore
    results: MemoryResultStore
    sleep: Callable[[float], None]
    kind: str

    def snapshot(self, execution_id: int = EID, **wanted: Any) -> Snapshot:
        return self.store.load([LoadRequest(execution_id, **wanted)]).executions[execution_id]


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    results = MemoryResultStore()
    if request.param == "memory":
        clock = Clock()
        yield Harness(MemoryExecutionStore(clock), results, clock.sleep, "memory")
        return
    from noetl.adapters.postgres import PostgresExecutionStore

    time: DatabaseClock = request.getfixturevalue("database_clock")
    store = PostgresExecutionStore(time.dsn)
    yield Harness(store, results, time.sleep, "postgres")
    store.close()


@pytest.fixture
def store(harness: Harness) -> ExecutionStore:
    return harness.store


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def catalog(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryCatalog()
        return
    from noetl.adapters.postgres import PostgresCatalog

    found = PostgresCatalog(request.getfixturevalue("database"))
    yield found
    found.close()
