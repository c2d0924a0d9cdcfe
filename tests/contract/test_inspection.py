"""What both kinds of store tell those who look into them."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain.commands import FrozenScope
from noetl.domain.events import ContextPatched
from noetl.domain.workers import lease_owners
from noetl.ports.executions.execution_store import TimerChange
from noetl.ports.executions.inspection import Backlog, Inspection
from tests.contract.builders import EID

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
