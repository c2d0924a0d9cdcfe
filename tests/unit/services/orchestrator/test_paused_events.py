"""Events of an execution that is paused and resumed while they are handled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from noetl.adapters.memory import MemoryExecutionStore
from noetl.domain.events import CommandDone, Event, Held, ItemsDone, LoopDone, Pause, Resume, Start
from noetl.ports.queue import Outgoing
from noetl.services.messaging.large_messages import unpack
from noetl.services.orchestrator.handle_events import handle_events
from noetl.services.orchestrator.paused_events import held
from tests.unit.services.engine_bench import HEAD, Bench

LOOP = (
    HEAD
    + "  - step: start\n    loop: { in: [1, 2], iterator: n, mode: sequential }\n    tool: { kind: http, url: 'http://a.test/' }\n"
)


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


@pytest.mark.parametrize("was_held", [False, True])
def test_the_end_of_a_loop_comes_back_as_it_came(was_held: bool):
    """It is completed while it is handled. Its message, or its row, stays for what came."""
    bench = Bench(LOOP)
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()
    bench.left = 0.0
    bench.events.send([Outgoing(bench.items(command), "g", "d")])
    bench.handle(bench.receive())
    (delivery,) = bench.receive()
    done = unpack(delivery.body, bench.results).event
    assert isinstance(done, LoopDone)
    bench.left = 25.0
    bench.events.ack([delivery])
    came = held(done) if was_held else done
    bench.handle(bench.put(Pause(start.execution_id, "pause", "")))
    deps = replace(bench.deps.engine, store=ResumedMeanwhile(bench, start.execution_id))
    (back,) = handle_events([came], deps).events
    assert back is came


def copies(event: CommandDone | ItemsDone, held_first: bool) -> list[Event]:
    """A message that was delivered again, and the row that was held of it when it first came."""
    twice: list[Event] = [event, held(event)]
    return twice[::-1] if held_first else twice


@pytest.mark.parametrize("held_first", [False, True])
def test_a_held_row_and_a_repeat_of_its_event_both_come_back_when_a_pause_ends_meanwhile(held_first: bool):
    bench = Bench()
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()
    done = unpack(bench.answer(command), bench.results).event
    assert isinstance(done, CommandDone)
    bench.handle(bench.put(Pause(start.execution_id, "pause", "")))
    deps = replace(bench.deps.engine, store=ResumedMeanwhile(bench, start.execution_id))
    came = copies(done, held_first)
    back = handle_events(came, deps).events
    assert list(map(id, back)) == list(map(id, came))


@pytest.mark.parametrize("held_first", [False, True])
def test_a_held_row_goes_when_an_early_repeat_of_its_event_comes_with_it(held_first: bool):
    """The end of a chunk is held, the execution goes on, and the end is released beside a repeat of it, before the items themselves."""
    bench = Bench(LOOP)
    start = bench.start()
    bench.handle(bench.put(start))
    ((command, _),) = bench.given()
    whole = unpack(bench.items(command), bench.results).event
    assert isinstance(whole, ItemsDone)
    items = msgspec.structs.replace(whole, event_id="items:1", closed=False)
    end = msgspec.structs.replace(whole, event_id="items:2", items=[], undone=0)
    bench.handle(bench.put(Pause(start.execution_id, "pause", "")))
    deps = replace(bench.deps.engine, owner="engine")
    deps.store.heartbeat("engine", 60.0)
    handle_events([end], deps)
    (released,) = handle_events([Resume(start.execution_id, "resume", "")], deps).events
    assert isinstance(released, Held)
    came: list[Event] = [released, end] if held_first else [end, released]
    back = handle_events(came, deps).events
    assert list(map(id, back)) == list(map(id, came))
    handle_events([items, *back], deps)
    bench.time += 60.0
    assert not [one for one in deps.store.undelivered("next", 10) if isinstance(one, Held)]
