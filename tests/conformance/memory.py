"""A case in memory, in virtual time: played once for all tests that look at the same run of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from noetl.adapters.memory import MemoryExecutionStore
from noetl.domain.errors import NotFoundError
from noetl.domain.events import Event
from noetl.ports.executions.execution_store import Change, Committed, ExecutionInfo, ExecutionStore
from noetl.ports.executions.inspection import Inspection
from noetl.services.queries.analyze import AnalyzeDeps
from noetl.testing.memory import MemoryBackend, real_worker
from noetl.testing.play_case import Observed
from tests.conformance.cases import find_cases, play
from tests.conformance.explained import check_explained
from tests.doubles.inspection import MemoryInspection

CASES = {case.name: case for case in find_cases()}


@dataclass(slots=True)
class Looks:
    """`analyze` has to explain each state that a reader sees. ``clock``: epoch seconds."""

    store: ExecutionStore
    inspection: Inspection
    clock: Callable[[], float]

    def look(self, executions: Iterable[ExecutionInfo]) -> None:
        deps = AnalyzeDeps(self.store, self.inspection, _no_programs, self.clock)
        for info in executions:
            check_explained(info, deps)


def _no_programs(program: str) -> Any:
    raise NotFoundError("the programs of a case are its own")


class SeenStore(MemoryExecutionStore):
    """A store whose executions are looked at before each commit of the engine, and when nothing can be done before time passes."""

    def commit(self, changes: Sequence[Change], owner: str | None = None) -> Committed:
        self.look()
        return super().commit(changes, owner)

    def due_timers(self, owner: str, limit: int) -> tuple[Sequence[Event], float | None]:
        self.look()
        return super().due_timers(owner, limit)

    def look(self) -> None:
        looks = Looks(self, MemoryInspection(self), self._tables.clock)
        looks.look(self.executions(limit=100))


class ExplainedBackend(MemoryBackend):
    """A backend whose executions `analyze` has to explain at every moment."""

    def __post_init__(self) -> None:
        self.store = self.seen = SeenStore(self.time.epoch)

    def look(self) -> None:
        self.seen.look()


@lru_cache(maxsize=8)
def in_memory(name: str) -> tuple[MemoryBackend, Observed]:
    """Play a case as it is written. xdist gives all tests of a case to one process, so that they share this."""
    backend = ExplainedBackend()
    seen = play(CASES[name], backend, real_worker)
    backend.look()
    return backend, seen
