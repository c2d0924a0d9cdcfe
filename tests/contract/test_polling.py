"""Work that goes on elsewhere: its command is written over for each question, and history does not grow."""

from __future__ import annotations

from noetl.domain.commands import LoopSlice
from noetl.ports.executions.execution_store import Poll
from tests.contract.builders import EID

MACHINE = {"v": 1, "text": 'ä \\ " {}, \u0001', "big": 2**70}


def test_a_command_asks_again_as_its_next_attempt_and_leaves_no_history(harness, make):
    store = harness.store
    store.commit([make.change(issue=(make.command("1", scope=make.loop(1, 1).scope, remote=True),))], "me")
    rows = store.events(EID)
    for attempt in (1, 2, 3):
        (again,) = store.ask_again([Poll(EID, "1", attempt, 0, {**MACHINE, "n": attempt}, 60.0)], "me")
        assert (again.attempt, again.delay, again.machine["n"]) == (attempt + 1, 60.0, attempt)
    # Late, of another turn, unknown, twice in a batch.
    late = [Poll(EID, "1", 3, 0, {}, 0.0), Poll(EID, "1", 4, 1, {}, 0.0), Poll(EID, "9", 1, 0, {}, 0.0)]
    assert store.ask_again(late, "me") == []
    assert store.events(EID) == rows and store.open_work(EID)["commands"] == 1
    # It stays delayed when its process dies, and is whole when it is taken.
    store.release("me")
    assert store.claim("other", 10) == []
    (woken,) = store.wake_early([(EID, "1"), (EID, "9")], "other")
    assert (woken.attempt, woken.turn, woken.remote, woken.delay) == (5, 0, True, 0.0)
    assert woken.machine == {**MACHINE, "n": 3} and woken.scope == make.loop(1, 1).scope
    # What is due is not woken, nor is what waits for nothing elsewhere.
    assert store.wake_early([(EID, "1")], "other") == []
    store.commit([make.change(1, close=(("1", 5, 0),), issue=(make.command("2", delay=60.0),))], "me")
    assert store.wake_early([(EID, "1"), (EID, "2")], "other") == []


def test_a_batch_may_repeat_what_an_earlier_attempt_said_in_any_order(harness, make):
    store = harness.store
    store.commit([make.change(issue=(make.command("1", remote=True),))], "me")
    (again,) = store.ask_again([Poll(EID, "1", 1, 0, {"n": 1}, 0.0)], "me")
    told = [Poll(EID, "1", 2, 0, {"n": 2}, 0.0), Poll(EID, "1", 1, 0, {"n": 1}, 0.0)]
    (further,) = store.ask_again(told, "me")
    assert (again.attempt, further.attempt, further.machine) == (2, 3, {"n": 2})


def test_a_sequential_chunk_asks_again_with_what_its_loop_knows(harness, make):
    store = harness.store
    committed = store.commit([make.change(loops=(make.loop(3, 3, mode="sequential"),))], "me")
    (command,) = committed.commands
    piece = LoopSlice(0, 1, 3, 3, "item", "sequential")
    rest = make.command(command.command_id, turn=1, machine={"n": 0}, loop=piece, remote=True)
    store.commit_items([make.items(command, 0, closed=False, resumed=(rest,))], "me")
    (again,) = store.ask_again([Poll(EID, rest.command_id, 1, 1, MACHINE, 0.0)], "me")
    assert (again.machine, again.remote, again.attempt) == (MACHINE, True, 2)
    assert again.loop.items == [{"n": 1}, {"n": 2}] and again.scope.ctx == {"factor": 3}
    store.release("me")
    (claimed,) = store.claim("other", 10)
    assert (claimed.machine, claimed.attempt, claimed.loop.start) == (MACHINE, 3, 1)


def test_what_processes_die_of_is_not_woken_before_its_time(harness, make):
    """Each time would be one more than the deaths that are allowed, and beside other commands."""
    store = harness.store
    store.commit([make.change(issue=(make.command("1", remote=True),))], "me")
    for _ in range(3):
        store.record_lost([(EID, "1", 0)])
    store.release("me")
    assert store.wake_early([(EID, "1")], "other") == []
    harness.sleep(60)
    (claimed,) = store.claim("other", 10)
    assert claimed.lost == 3
