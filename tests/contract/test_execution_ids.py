"""An execution id belongs to one Start, whichever two ask for it and in whatever order their commits come."""

from __future__ import annotations

import pytest

from noetl.domain import ids
from noetl.domain.commands import LoopSlice
from noetl.domain.events import Parent, Start
from noetl.ports.execution_store import ExecutionIdTakenError
from tests.contract.builders import EID

ME = "owner-1"
CHILD = EID + 64


def child(origin: str = "2:1", parent: int = EID, child_id: int = CHILD) -> Start:
    return Start(child_id, ids.start_event(f"{parent}/{origin}"), "kid", parent=Parent(parent, "2", 1, run=2))


def begin(make, start: Start, **over):
    created = make.created(start=start.event_id)
    row = make.row(start.event_id)
    return make.change(
        execution_id=start.execution_id, created=created, events=(row,), handled=(start.event_id,), **over
    )


def test_two_children_that_wait_never_share_an_id(store, make):
    store.commit([make.change(outbox=(child(),))], ME)
    with pytest.raises(ExecutionIdTakenError) as refused:
        store.commit([make.change(1, outbox=(child("3:1"),))], ME)
    assert refused.value.children == {CHILD} and not refused.value.starts
    assert store.info(EID).version == 1, "nothing was written"


def test_two_children_of_one_commit_never_share_an_id(store, make):
    with pytest.raises(ExecutionIdTakenError) as refused:
        store.commit([make.change(outbox=(child(), child("3:1")))], ME)
    assert refused.value.children == {CHILD}
    other = make.change(execution_id=EID + 1, outbox=(child(parent=EID + 1),))
    with pytest.raises(ExecutionIdTakenError):
        store.commit([make.change(outbox=(child(),)), other], ME)


def test_a_child_never_gets_the_id_of_an_execution_that_exists(store, make):
    store.create(make.start(CHILD), make.created())
    with pytest.raises(ExecutionIdTakenError):
        store.commit([make.change(outbox=(child(),))], ME)
    store.commit([begin(make, make.start(CHILD))], ME)
    with pytest.raises(ExecutionIdTakenError):
        store.commit([make.change(outbox=(child(),))], ME)


def test_a_start_that_comes_again_is_a_repeat(store, make):
    store.commit([make.change(outbox=(child(),))], ME)
    assert store.commit([make.change(1, outbox=(child(),))], ME).events == ()
    store.commit([begin(make, child())], ME)
    store.commit([make.change(2, outbox=(child(),))], ME)
    store.heartbeat("x", 60)
    store.release(ME)
    assert store.undelivered("x", 10) == [], "it was applied already"


def test_an_id_that_a_child_waits_for_is_given_to_no_client(store, make):
    store.commit([make.change(outbox=(child(),))], ME)
    assert not store.create(make.start(CHILD), make.created()).fresh
    with pytest.raises(ExecutionIdTakenError) as refused:
        store.commit([begin(make, make.start(CHILD))], ME)
    assert refused.value.starts == {CHILD} and not refused.value.children
    store.commit([begin(make, child())], ME)


def test_a_row_that_one_client_created_is_not_begun_by_another(store, make):
    store.create(make.start(CHILD), make.created())
    theirs = Start(CHILD, ids.start_event("theirs"), "prog")
    with pytest.raises(ExecutionIdTakenError) as refused:
        store.commit([begin(make, theirs)], ME)
    assert refused.value.starts == {CHILD}
    store.commit([begin(make, make.start(CHILD))], ME)
    assert store.info(CHILD).version == 1


def test_items_of_a_loop_ask_as_steps_do(store, make):
    loop = make.loop(2, 2)
    first, second = store.commit([make.change(loops=(loop,))], ME).commands
    store.create(make.start(CHILD), make.created())

    def waits(command, start):
        index = command.loop.start
        item = make.command(
            f"1.r0.i{index}",
            turn=1,
            run=1,
            step="each",
            loop=LoopSlice(0, index, index + 1, 2, "item", "parallel"),
        )
        row = make.row(ids.item_turn_event(1, 0, index, 1), seq=index, lane=1)
        return make.items(command, rows=(row,), waiting=(item,), outbox=(start,))

    with pytest.raises(ExecutionIdTakenError) as refused:
        store.commit_items(
            [waits(first, child("1.r0.i0/0:1")), waits(second, child("1.r0.i1/1:1", child_id=EID + 128))], ME
        )
    assert refused.value.children == {CHILD}
    _, committed = store.commit_items([waits(first, child("1.r0.i0/0:1", child_id=EID + 192))], ME)
    assert [event.execution_id for event in committed.events] == [EID + 192]


def test_a_report_that_comes_again_starts_no_second_child_of_an_item(store, make):
    """When it is derived again, its id may be another one: the row of the item decides, not the id."""
    loop = make.loop(2, 2)
    (chunk, _) = store.commit([make.change(loops=(loop,))], ME).commands

    def report(child_id: int, *over: int):
        asked = Parent(EID, chunk.command_id, 0, run=1, round=0, index=0, wait=False)
        origin = ids.child_origin(chunk.command_id, 0, 0, 1)
        start = Start(child_id, ids.start_event(f"{EID}/{origin}"), "kid", parent=asked)
        return make.items(chunk, *over, closed=False, outbox=(start,))

    _, committed = store.commit_items([report(CHILD, 0)], ME)
    assert [event.execution_id for event in committed.events] == [CHILD]
    (answer,), committed = store.commit_items([report(EID + 128, 0)], ME)
    assert not answer.superseded and committed.events == ()
    assert store.start_of(EID + 128) is None and store.start_of(CHILD) is not None
    again, committed = store.commit_items([report(CHILD, 0), report(CHILD, 0)], ME)
    assert [one.counted for one in again] == [0, 0] and committed.events == ()
