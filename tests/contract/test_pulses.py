"""What a watcher sees change of executions: steps, loops, ends, and the list; in one round trip."""

from __future__ import annotations

from noetl.domain.events import CommandDone
from noetl.domain.outcomes.outcomes import Outcome
from noetl.ports.executions.execution_store import NEWEST, LoopPulse
from tests.contract.test_left_loops import LOOP, START, Engine
from tests.contract.test_sums_of_loops import all_answered, answered


def test_each_commit_and_each_item_changes_a_pulse(harness):
    engine = Engine(harness, START + LOOP.replace("MODE", "parallel"))
    about = engine.first.execution_id

    def read():
        return harness.store.pulses([about, about + 1, NEWEST])

    first = read()
    assert first.keys() == {about, NEWEST} and first[about].status == "running" and not first[about].loops
    commands = engine.handle(CommandDone.of(engine.first, Outcome("ok", {"v": 1})))
    begun = read()[about]
    assert begun.version > first[about].version and begun.seq > first[about].seq
    (loop,) = begun.loops
    assert (loop.done, loop.failed, loop.total) == (0, 0, 3)
    one = commands.pop(0)
    commands += engine.handle(answered(one, [one.loop.start], [1], undone=0))
    (after,) = read()[about].loops
    assert after == LoopPulse(loop.run, loop.round, loop.step, 1, 0, 3)
    assert read()[NEWEST] == first[NEWEST], "the list shows no items"
    all_answered(engine, commands, [1, 1, 1])
    ended = read()
    assert ended[about].status in ("completed", "failed") and ended[NEWEST].version != first[NEWEST].version
