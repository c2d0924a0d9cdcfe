"""Leases: who may take what, and what it gets."""

from __future__ import annotations

import msgspec
import pytest

from noetl.domain import ids
from noetl.domain.commands import LoopSlice
from noetl.domain.events import Cancel, ContextPatched
from noetl.domain.outcomes.outcomes import Outcome, Patch, Suspend
from noetl.domain.workers.lease_owners import later
from noetl.domain.workers.lost_owners import MOST, WAIT_SECONDS
from noetl.ports.executions.execution_store import CreatedExecution, Wake

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
ME, OTHER = "owner-1", "owner-2"


def test_only_what_belongs_to_nobody_alive_can_be_claimed(harness, make):
    store = harness.store
    store.heartbeat(ME, 60)
    store.commit([make.change(issue=(make.command("1"), make.command("2")))], ME)
    assert store.claim(OTHER, 10) == []
    store.release(ME)
    store.heartbeat(OTHER, 60)
    (first,) = store.claim(OTHER, 1)
    assert (first.command_id, first.attempt) == ("1", 2)
    store.heartbeat("owner-3", 60)
    assert [command.command_id for command in store.claim("owner-3", 10)] == ["2"]
    assert store.claim("owner-3", 10) == []


def test_an_owner_that_stops_beating_loses_its_leases(harness, make):
    store = harness.store
    store.heartbeat(ME, 1.0)
    event = ContextPatched(EID, "p", "prog", [])
    store.commit([make.change(issue=(make.command("1"),), outbox=(event,))], ME)
    assert store.claim(OTHER, 10) == [] and store.undelivered(OTHER, 10) == []
    harness.sleep(1.1)
    store.heartbeat(OTHER, 60)
    assert len(store.claim(OTHER, 10)) == 1 and store.undelivered(OTHER, 10) == [event]


def test_an_owner_whose_machine_slept_is_not_given_what_it_runs(harness, make):
    """It would run all of it twice. To another process it looks dead."""
    store = harness.store
    assert not store.heartbeat(ME, 1.0) and not store.heartbeat(ME, 1.0)
    store.commit([make.change(issue=(make.command("1"), make.command("2"), make.command("3")))], ME)
    store.record_lost([(EID, "2", 0), (EID, "3", 0)])
    store.record_lost([(EID, "3", 0)])
    harness.sleep(2 * WAIT_SECONDS + 1.1)
    assert store.claim(ME, 10) == []
    store.heartbeat(OTHER, 60)
    assert {command.command_id for command in store.claim(OTHER, 10)} == {"1", "2", "3"}
    assert store.claim(ME, 10) == []
    assert store.heartbeat(ME, 1.0) and not store.heartbeat(ME, 1.0), "it learns that it may have lost them"


def test_what_processes_die_of_waits_and_comes_alone_until_it_is_given_up(harness, make):
    store = harness.store
    every = tuple(make.command(name) for name in ("1", "2", "3", "4"))
    store.commit([make.change(issue=every)])
    turns = [(EID, one.command_id, 0) for one in every[:3]]

    def claimed(owner, **more):
        store.heartbeat(owner, 600)
        return [(one.command_id, one.lost) for one in store.claim(owner, 10, **more)]

    store.record_lost(turns)
    assert claimed("a", lost=False) == [("4", 0)], (
        "a command line that only looks after its own takes none of them"
    )
    store.release("a")
    assert claimed("b") == [("4", 0), ("1", 1), ("2", 1), ("3", 1)], "at once, after the work of others"
    store.record_lost(turns)
    store.release("b")
    assert claimed("c") == [("4", 0)]
    harness.sleep(WAIT_SECONDS + 0.1)
    assert claimed("c") == [("1", 2)] and claimed("c") == []
    assert claimed("d") == [("2", 2)], "another process may try the next one"
    store.record_lost(turns[:1])
    store.release("c")
    assert claimed("c") == [("4", 0), ("3", 2)]
    harness.sleep(2 * WAIT_SECONDS + 0.1)
    assert claimed("e") == [("1", MOST)], "to be answered, and not to be run"


def test_deaths_count_for_one_turn_of_a_command(harness, make):
    store = harness.store
    store.commit([make.change(issue=(make.command("1"),))])
    for _ in range(5):
        store.record_lost([(EID, "1", 7), (EID, "unknown", 0), (999, "1", 0)])
    (command,) = store.claim(ME, 10)
    assert command.lost == 0


def test_delayed_commands_are_not_due_before_their_time(harness, make):
    store = harness.store
    store.commit([make.change(issue=(make.command("1", delay=0.15), make.command("2", delay=900.0)))])
    assert store.claim(ME, 10) == []
    harness.sleep(0.2)
    (command,) = store.claim(ME, 10)
    assert (command.command_id, command.delay) == ("1", 0.0)


def test_an_owner_that_takes_its_leases_anew_finds_what_was_not_due_yet(harness, make):
    """Its answer was lost: it holds a delayed command that it has never heard of."""
    store = harness.store
    store.heartbeat(ME, 60)
    store.commit([make.change(issue=(make.command("1", delay=0.15),))], ME)
    store.release(ME)
    store.heartbeat(ME, 60)
    assert store.claim(ME, 10) == []
    harness.sleep(0.2)
    assert [command.command_id for command in store.claim(ME, 10)] == ["1"]


def test_undelivered_skips_what_was_applied_meanwhile(store, make):
    event = ContextPatched(EID, "p", "prog", [])
    store.commit([make.change(events=(make.row("p"),), outbox=(event,))])
    assert store.undelivered(ME, 10) == []
    assert store.open_work(EID)["outbox"] == 0


def test_a_start_for_later_is_nobodys_until_its_time(harness, make):
    store, now = harness.store, harness.store.load([]).now
    store.heartbeat(ME, 60)
    far, soon = make.start(EID), make.start(EID + 1)
    for start, at in ((far, float(int(now) + 3600)), (soon, float(int(now) + 2))):
        created = CreatedExecution("p", "n", starts_at=at)
        assert store.create(start, created, later(at)).fresh
        info = store.info(start.execution_id)
        assert (info.started_at, info.ahead) == (at, True)
    assert store.undelivered(ME, 10) == []
    harness.sleep(2.1)
    assert store.undelivered(ME, 10) == [soon]
    assert [info.ahead for info in store.executions(limit=2)] == [False, True]
    assert store.create(make.start(EID + 2), CreatedExecution("p", "n"), ME).fresh
    assert not store.info(EID + 2).ahead
    assert store.post(Cancel(EID, "c", "prog"), ME).posted, "it is cancelled before it starts"


def test_undelivered_keeps_order_and_limit(store, make):
    events = tuple(ContextPatched(EID, f"p{number}", "prog", []) for number in (3, 1, 2))
    store.commit([make.change(outbox=events)])
    store.heartbeat(ME, 60)
    assert store.undelivered(ME, 2) == list(events[:2])
    assert store.undelivered(ME, 2) == [events[2]]


def test_a_claimed_chunk_skips_what_is_done_and_sees_its_writes(store, make):
    (command,) = store.commit([make.change(loops=(make.loop(5, 1, mode="sequential"),))], ME).commands
    outcomes = {
        index: Outcome("ok", patches=[Patch("ctx", "sum", index + 1, "add"), Patch("ctx", "last", index)])
        for index in range(3)
    }
    store.commit_items([make.items(command, 0, 1, 2, outcomes=outcomes, closed=False)], ME)
    (again,) = store.claim(OTHER, 1)
    assert again.attempt == 2 and again.loop.skip == (0, 1, 2) and again.loop.items == command.loop.items
    assert again.overlay == [Patch("ctx", "sum", 6, "add"), Patch("ctx", "last", 2)]
    answers, _ = store.commit_items([make.items(command, 3, 4)], ME)
    assert answers[0].superseded, "the first attempt has lost its fence"
    answers, _ = store.commit_items([make.items(again, 3, 4)], OTHER)
    assert answers[0].done == 5


@pytest.mark.parametrize("finished", [False, True])
def test_a_claimed_rest_starts_from_its_own_overlay(store, make, finished):
    """Its first item goes on where it was suspended. When that item is finished, the next one begins: it goes on with nothing of the first."""
    (command,) = store.commit([make.change(loops=(make.loop(4, 1, mode="sequential"),))], ME).commands
    rest = make.command(
        command.command_id, run=1, turn=1, machine={"pc": 2}, overlay=[Patch("ctx", "sum", 5, "add")],
        loop=LoopSlice(0, 1, 4, 4, "item", "sequential"), remote=True,
    )  # fmt: skip
    store.commit_items([make.items(command, 0, closed=False, resumed=(rest,))], ME)
    if finished:
        done = {1: Outcome("ok", patches=[Patch("ctx", "sum", 2, "add")])}
        store.commit_items([make.items(rest, 1, outcomes=done, closed=False)], ME)
    (again,) = store.claim(OTHER, 1)
    assert again.loop.start == 1 and len(again.loop.items) == 3
    if finished:
        assert (again.turn, again.attempt, again.machine, again.remote) == (1, 2, None, False)
        assert again.loop.skip == (1,) and again.overlay == [Patch("ctx", "sum", 7, "add")]
    else:
        assert (again.turn, again.attempt, again.machine, again.remote) == (1, 2, {"pc": 2}, True)
        assert again.loop.skip == () and again.overlay == [Patch("ctx", "sum", 5, "add")]


def test_a_claimed_rest_does_not_give_a_child_s_outcome_to_another_item(store, make):
    (command,) = store.commit([make.change(loops=(make.loop(3, 1, mode="sequential"),))], ME).commands
    rest = make.command(
        command.command_id, run=1, turn=1, machine={"pc": 2}, loop=LoopSlice(0, 0, 3, 3, "item", "sequential")
    )
    store.commit_items([make.items(command, closed=False, waiting=(rest,))], ME)
    wake = Wake(rest.command_id, 1, Outcome("ok", result="of the child of item 0"))
    (woken,) = store.commit([make.change(1, wakes=(wake,))], ME).commands
    assert (woken.machine, woken.child) == (rest.machine, wake.outcome)
    store.commit_items([make.items(woken, 0, closed=False)], ME)
    (again,) = store.claim(OTHER, 1)
    assert (again.loop.skip, again.machine, again.child) == ((0,), None, None)


def test_parallel_chunks_carry_no_overlay(store, make):
    (command,) = store.commit([make.change(loops=(make.loop(1, 1),))], ME).commands
    patched = Outcome("ok", patches=[Patch("ctx", "sum", 1, "add")])
    store.commit_items(
        [make.items(command, 0, outcomes={0: patched}, closed=False, alert="next", alert_index=0)], ME
    )
    (again,) = store.claim(OTHER, 1)
    assert again.loop.skip == (0,) and again.overlay == []


def test_a_claimed_chunk_leaves_items_alone_that_went_on_alone(store, make):
    (command,) = store.commit([make.change(loops=(make.loop(1, 1),))], ME).commands
    alone = make.command(
        ids.item_command_id(1, 0, 0), run=1, turn=1, loop=LoopSlice(0, 0, 1, -1, "item", "parallel")
    )
    outcome = Outcome("suspended", suspend=Suspend({"pc": 0}, delay=1.0))
    batch = make.items(command, 0, outcomes={0: outcome}, closed=False)
    row = make.row(ids.item_turn_event(1, 0, 0, 1), seq=0, lane=1)
    store.commit_items([msgspec.structs.replace(batch, rows=(row,), resumed=(alone,))], ME)
    store.heartbeat(OTHER, 60)
    found = {again.command_id: again.loop.skip for again in store.claim(OTHER, 10)}
    assert found == {command.command_id: (0,), alone.command_id: ()}


def test_counters_hold_when_an_item_is_reported_by_two_commands(store, make):
    (command,) = store.commit([make.change(loops=(make.loop(2, 1),))], ME).commands
    alone = make.command(
        ids.item_command_id(1, 0, 0), run=1, turn=1, loop=LoopSlice(0, 0, 1, -1, "item", "parallel")
    )
    outcome = Outcome("suspended", suspend=Suspend({"pc": 0}, delay=1.0))
    batch = make.items(command, 0, outcomes={0: outcome}, closed=False)
    row = make.row(ids.item_turn_event(1, 0, 0, 1), seq=0, lane=1)
    store.commit_items([msgspec.structs.replace(batch, rows=(row,), resumed=(alone,))], ME)
    _, closed = store.commit_items([make.items(command, 0)], ME)
    assert closed.commands == () and store.loop_progress(EID)[0].done == 0, "the item goes on alone"
    _, committed = store.commit_items([make.items(alone, 0)], ME)
    (loop,) = store.loop_progress(EID)
    assert loop.done == 1 and loop.issued >= loop.done
    _, committed = store.commit_items(
        [make.items(again, again.loop.start) for again in committed.commands], ME
    )
    assert store.loop_progress(EID)[0].gate == "closed"
