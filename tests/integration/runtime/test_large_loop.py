"""A large loop through the local runtime on Postgres: everything counted once, joined once, and nothing that grows with it in memory."""

import tracemalloc
from collections import Counter

import pytest

from noetl.domain.facts.facts import LoopFinished, LoopStarted, decode_facts
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.history.replay import replay
from noetl.services.queries.read_execution import result
from tests.waiting import PATIENCE

ITEMS = 10_000
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: large_loop, path: tests/large_loop }
workload: { items: 1 }
workflow:
  - step: start
    loop: { in: "{{ range(workload.items) | list }}", iterator: number, mode: parallel }
    tool: { kind: noop, args: { square: "{{ number * number }}" } }
    next: last
  - step: last
    tool: { kind: noop, args: { count: "{{ start.count }}", one: "{{ start[9999 % workload.items].square }}" } }
"""


@pytest.fixture
def runtime(database, tmp_path):
    with LocalRuntime(Settings.from_env({}, home=tmp_path, database_url=database)) as runtime:
        yield runtime


def play(runtime, items):
    entry = runtime.register(PLAYBOOK, source_name="large_loop.yaml")
    execution = runtime.start(entry, {"items": items})
    runtime.run_until([execution], timeout=PATIENCE)
    assert runtime.status(execution) == "completed"
    return execution


def test_ten_thousand_items_are_issued_counted_and_joined_once(runtime):
    execution = play(runtime, ITEMS)
    (loop,) = runtime.store.loop_progress(execution)
    assert (loop.total, loop.issued, loop.done, loop.failed, loop.gate) == (ITEMS, ITEMS, ITEMS, 0, "closed")
    facts = Counter(type(fact) for row in runtime.store.events(execution) for fact in decode_facts(row.facts))
    assert (facts[LoopStarted], facts[LoopFinished]) == (1, 1)
    assert len(list(runtime.store.events(execution))) <= 4, (
        "history of the main lane does not grow with the loop"
    )
    assert sum(1 for _ in runtime.store.every_item(execution)) == ITEMS
    assert result(runtime.store, runtime.results, execution) == {"count": ITEMS, "one": 9999 * 9999}
    assert replay(runtime.store, execution).agrees
    assert not any(runtime.store.open_work(execution).values())


@pytest.mark.full
def test_memory_does_not_grow_with_the_loop(runtime):
    peaks = {}
    play(runtime, 500)
    for items in (1000, ITEMS):
        tracemalloc.start()
        play(runtime, items)
        peaks[items] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks[ITEMS] < peaks[1000] + 16 * 1024 * 1024, peaks
