"""A case in memory, in virtual time: played once for all tests that look at the same run of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from noetl.adapters.memory import MemoryExecutionStore
from noetl.domain.errors import NotFoundError
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.executions.inspection import Inspection
from noetl.services.queries.analyze import AnalyzeDeps
from noetl.testing.driver import VirtualClock
from noetl.testing.memory import MemoryBackend, real_worker
from noetl.testing.play_case import Observed
from tests.conformance.cases import find_cases, play
from tests.conformance.explained import check_explained
from tests.doubles.inspection import MemoryInspection

CASES = {case.name: case for case in find_cases()}


@dataclass
class Looks:
    """`analyze` explains executions at quiet points: whenever nothing can be done before time passes.

    ``most``: the latest ones; in Postgres those of other cases are there, too. ``left``: how often it looks.
    """

    most: int
    left: int
    store: ExecutionStore | None = None
    inspection: Inspection | None = None

    def of(self, store: ExecutionStore, inspection: Inspection) -> None:
        self.store, self.inspection = store, inspection

    def look(self, now: float) -> None:
        if self.store is None or self.inspection is None or self.left <= 0:
            return
        self.left -= 1
        deps = AnalyzeDeps(self.store, self.inspection, _no_programs, lambda: now)
        for info in self.store.executions(limit=self.most):
            check_explained(info, deps)


def _no_programs(program: str) -> Any:
    raise NotFoundError("the programs of a case are its own")


@dataclass(slots=True)
class SeenClock(VirtualClock):
    looks: Looks = field(default_factory=lambda: Looks(100, 1_000_000))

    def pass_by(self, seconds: float) -> None:
        self.looks.look(self.epoch())
        self.seconds += seconds


def explained_backend() -> tuple[MemoryBackend, SeenClock]:
    """Make a backend whose executions `analyze` has to explain at every quiet point."""
    clock = SeenClock()
    backend = MemoryBackend(clock)
    assert isinstance(backend.store, MemoryExecutionStore)
    clock.looks.of(backend.store, MemoryInspection(backend.store))
    return backend, clock


@lru_cache(maxsize=8)
def in_memory(name: str) -> tuple[MemoryBackend, Observed]:
    """Play a case as it is written. xdist gives all tests of a case to one process, so that they share this."""
    backend, clock = explained_backend()
    seen = play(CASES[name], backend, real_worker)
    clock.looks.look(clock.epoch())
    return backend, seen
