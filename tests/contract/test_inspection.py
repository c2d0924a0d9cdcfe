"""What both kinds of store tell those who look into them."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain.commands import FrozenScope
from noetl.domain.events import CommandDone, ContextPatched, Held
from noetl.domain.limits import Admission
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.workers import lease_owners
from noetl.ports.executions.execution_store import ChildrenWord, TimerChange
from noetl.ports.executions.inspection import Backlog, Inspection, OpenWork
from tests.contract.builders import EID

OTHER = EID + 1
ME, GONE = "owner-1", "owner-2"
ODD = FrozenScope(ctx={"text": 'nul \x00, half \ud800 and "pool": x'})


@pytest.fixture
def inspection(harness: Any) -> Inspection:
    if harness.kind == "memory":
        from tests.doubles.inspection import MemoryInspection

        return MemoryInspection(harness.store)
    from noetl.adapters.postgres.executions.inspection import PostgresInspection

    return PostgresInspection(harness.store.database)


def test_commands_are_told_with_who_has_them(harness, make, inspection):
    store = harness.store
    store.heartbeat(ME, 60)
    store.heartbeat(GONE, 0.2)
    issue = (make.command("1", scope=ODD), make.command("2", delay=900.0, pool="python"))
    store.commit([make.change(issue=issue, waiting=(make.command("3"),))], ME)
    store.commit([make.change(execution_id=EID + 1, issue=(make.command("1", EID + 1),))], GONE)
    harness.sleep(0.3)
    found = inspection.open_commands(EID, 10)
    assert [(one.command_id, one.run, one.attempt, one.owner, one.alive, one.waiting) for one in found] == [
        ("1", 1, 1, ME, True, False),
        ("2", 2, 1, ME, True, False),
        ("3", 3, 1, "", False, True),
    ]
    assert found[0].due_for > 0.29 and -900 <= found[1].due_for < -890
    assert [one.alive for one in inspection.open_commands(EID + 1, 10)] == [False]
    assert len(inspection.open_commands(EID, 2)) == 2 and not inspection.open_commands(12, 9)


def test_commands_are_told_with_who_died_of_them_and_whether_their_work_is_elsewhere(
    harness, make, inspection
):
    store = harness.store
    store.commit([make.change(issue=(make.command("1"), make.command("2")))])
    store.record_lost([(EID, "1", 0)])
    store.record_lost([(EID, "1", 0), (EID, "2", 7)])
    found = inspection.open_commands(EID, 10)
    assert [(one.command_id, one.lost, one.remote) for one in found] == [("1", 2, False), ("2", 0, False)]
    assert -4 < found[0].due_for < 0 <= found[1].due_for


def test_the_outbox_is_counted_with_the_age_of_its_oldest_event(harness, make, inspection):
    store, patch = harness.store, ContextPatched(EID, "p", "prog", [])
    store.commit([make.change(issue=(make.command("1"),))])
    assert inspection.open_work(EID) == OpenWork(store.open_work(EID), 0.0), "there is no event"
    harness.sleep(50)
    store.post(patch)
    harness.sleep(5)
    store.post(ContextPatched(EID, "p2", "prog", []))
    found = inspection.open_work(EID)
    assert found.counts == store.open_work(EID) and found.counts["outbox"] == 2
    assert found.oldest == pytest.approx(5)
    assert inspection.open_work(12).oldest == 0


def test_what_is_claimed_and_freed_again_keeps_its_age(harness, make, inspection):
    store = harness.store
    store.commit([make.change(outbox=(ContextPatched(EID, "p", "prog", []),))])
    harness.sleep(70)
    store.heartbeat(ME, 60)
    assert len(store.undelivered(ME, 9)) == 1
    store.release(ME)
    assert inspection.open_work(EID).oldest == pytest.approx(70)


def test_a_start_for_later_ages_from_its_moment(harness, make, inspection):
    store = harness.store
    now = store.load([]).now
    store.create(make.start(), make.created(starts_at=now + 900), lease_owners.later(now + 900))
    assert inspection.open_work(EID).oldest == pytest.approx(-900)
    harness.sleep(907)
    assert inspection.open_work(EID).oldest == pytest.approx(7)


def test_what_was_held_ages_from_the_moment_that_released_it(harness, make, inspection):
    """An outcome for a paused execution, and the Start of a child that had not begun."""
    store, start = harness.store, make.start(OTHER)
    done = CommandDone(EID, "cmd:1:0", "prog", "1", 1, 0, 1, "fetch", Outcome("ok"))
    store.commit([make.change(issue=(make.command("1"),), outbox=(start,))])
    store.commit([make.change(1, status="paused", words=(ChildrenWord("pause", "pause:1", 1),))])
    assert store.hold([Held(EID, "held:1", "prog", done), start]) == []
    harness.sleep(900)
    store.commit([make.change(2, release=True)], ME)
    harness.sleep(3)
    for execution_id in (EID, OTHER):
        found = inspection.open_work(execution_id)
        assert (found.counts["outbox"], found.oldest) == (1, pytest.approx(3)), execution_id


def test_a_start_that_waited_for_a_slot_ages_from_the_moment_that_it_got_one(harness, make, inspection):
    store = harness.store
    for execution_id in (EID, OTHER):
        store.admit(make.start(execution_id), make.created(), Admission("execution:demo", 1, "queue"), ME)
    store.commit([make.change(events=(make.row("start"),), handled=("start",))], ME)
    harness.sleep(900)
    assert inspection.open_work(OTHER).counts["outbox"] == 1
    store.commit([make.change(1, end=True, status="completed", limited=True)], ME)
    harness.sleep(3)
    assert inspection.open_work(OTHER).oldest == pytest.approx(3)


def test_everything_outstanding_is_counted_by_pool(harness, make, inspection):
    store = harness.store
    store.heartbeat(ME, 60)
    store.heartbeat(GONE, 0.2)
    event = ContextPatched(EID, "p", "prog", [])
    first = make.change(
        issue=(make.command("1", scope=ODD), make.command("2", delay=900.0)),
        waiting=(make.command("3"),),
        outbox=(event,),
        timers=(TimerChange("step:1", 1, 500.0),),
    )
    store.commit([first], ME)
    store.commit(
        [make.change(execution_id=EID + 1, loops=(make.loop(5, 3, pool="python", scope=ODD),))], GONE
    )
    store.commit([make.change(execution_id=EID + 2, issue=(make.command("1", EID + 2),))])
    harness.sleep(0.3)
    found = inspection.outstanding()
    io, python = found.pools
    assert (io.pool, io.ready, io.delayed, io.leased, io.suspended) == ("io", 1, 0, 2, 1)
    assert (python.pool, python.ready, python.leased) == ("python", 3, 0) and python.oldest > 0.29
    assert [(one.owner, one.pool, one.commands, one.alive) for one in found.leases] == [
        (ME, "io", 2, True),
        (GONE, "python", 3, False),
    ]
    assert 50 < (found.leases[0].seconds or 0) < 60 and (found.leases[1].seconds or 0) < 0
    assert (found.events, found.timers, found.partly) == (1, 1, False)
    part = inspection.outstanding(limit=2)
    assert part.partly and sum(one.ready + one.leased for one in part.pools) == 2


def test_leases_by_request_are_told_as_one_entry_without_their_names(harness, make, inspection):
    """Who knows such a name can free what is leased by it."""
    now = harness.store.load([]).now
    owners = [lease_owners.lease(now + left, "direct", f"0123abc{left}") for left in (60, 61, -5)]
    for execution_id, owner in enumerate(owners, EID):
        issued = make.command("1", execution_id)
        harness.store.commit([make.change(execution_id=execution_id, issue=(issued,))], owner)
    leases = inspection.outstanding().leases
    assert sorted((one.owner, one.pool, one.commands, one.alive) for one in leases) == [
        ("http:direct", "io", 1, False),
        ("http:direct", "io", 2, True),
    ]


def test_the_backlog_is_what_is_due_counted_up_to_a_number(harness, make, inspection):
    store = harness.store
    store.heartbeat(ME, 60)
    issue = (*map(make.command, "1234"), make.command("9", delay=900.0))
    outbox = tuple(ContextPatched(EID, f"p{number}", "prog", []) for number in range(3))
    store.commit([make.change(issue=issue, waiting=(make.command("8"),), outbox=outbox)], ME)
    now = store.load([]).now
    store.create(make.start(EID + 5), make.created(), lease_owners.later(now + 900))
    assert inspection.backlog(100) == Backlog(3, 4) and inspection.backlog(2) == Backlog(2, 2)
    if harness.kind == "postgres":
        from noetl.adapters.postgres.event_batches import PostgresEventBatches

        batches = PostgresEventBatches(store.database)
        batches.accept(7, ["{}"] * 5, key="", fingerprint="f", principal="me")
        assert inspection.backlog(100).events == 8
        batches.begin(7, 9)
        batches.end(7, "completed", [])
        assert inspection.backlog(100).events == 3
