"""Events of an execution that is paused and resumed while they are handled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from noetl.adapters.memory import MemoryExecutionStore
from noetl.domain.events import CommandDone, Held, Pause, Resume, Start
from noetl.services.handle_events import handle_events
from noetl.services.large_messages import unpack
from tests.unit.services.engine_bench import Bench


class ResumedMeanwhile:
    """A store whose execution is resumed by somebody else before anything of it can be held."""

    def __init__(self, bench: Bench, execution_id: int) -> None:
        self._bench, self._execution_id = bench, execution_id

    def __getattr__(self, name: str) -> object:
        return getattr(self._bench.store, name)

    def hold(self, events: Sequence[Held | Start]) -> Sequence[Held | Start]:
        self._bench.handle(self._bench.put(Resume(self._execution_id, "resume", "")))
        store: MemoryExecutionStore = self._bench.store
        return store.hold(events)


def test_the_outcome_that_counts_comes_back_beside_one_of_an_earlier_attempt():
    """Both have one event id. What comes back is what its message is kept for."""
    bench = Bench()
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()
    done = unpack(bench.answer(command), bench.results).event
    assert isinstance(done, CommandDone)
    earlier = msgspec.structs.replace(done, attempt=done.attempt - 1)
    bench.handle(bench.put(Pause(start.execution_id, "pause", "")))
    deps = replace(bench.deps.engine, store=ResumedMeanwhile(bench, start.execution_id))
    assert handle_events([done, earlier], deps).events == [done]
