"""An execution id belongs to one Start, whichever two ask for it and in whatever order their commits come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from noetl.domain import ids
from noetl.domain.commands import LoopSlice
from noetl.domain.events import Parent, Start
from noetl.dsl.compiler import compile_playbook
from noetl.kinds.registry import default_registry
from noetl.ports.executions.execution_store import Creation, ExecutionIdTakenError, IdempotencyKey
from noetl.services.executions.start_execution import StartRequest, start_execution
from tests.contract.builders import EID
from tests.contract.test_lock_order import meet

ME = "owner-1"
CHILD = EID + 64
ONE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: one, path: demo/one }
workflow:
  - step: start
    tool: { kind: noop }
"""


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


Meeting = Callable[..., list[Any]]


@pytest.fixture
def meeting(harness, request) -> Meeting:
    """Make calls that meet: each is under way, and has the rows of its execution, when the next one begins. On Postgres, somebody else's
    insert into history and the outbox holds their transactions open."""
    if harness.kind == "memory":
        return lambda *calls: [call() for call in calls]  # one lock: it has no other way to meet

    def held(*calls: Callable[[], Any]) -> list[Any]:
        dsn = request.getfixturevalue("database_clock").dsn
        with psycopg.connect(dsn) as barrier:
            barrier.execute(
                "INSERT INTO noetl.outbox (execution_id, event_id, source, owner, payload) VALUES (%s, 'start', 1, '', '{}')",
                (CHILD,),
            )
            barrier.execute(
                "INSERT INTO noetl.event (execution_id, event_id, lane, seq, type, at, facts)"
                " VALUES (%s, 'start:first', 0, 1, 'x', now(), '[]')",
                (CHILD,),
            )
            return meet(dsn, barrier, *calls)

    return held


@pytest.mark.parametrize("first", ["a create with a key", "a create without a key", "a first commit"])
def test_a_key_never_stands_for_the_execution_of_another_start(store, make, meeting, first):
    """Two clients draw one id, and the second is under way when the first commits."""
    keys = [IdempotencyKey(f"of {number}", "asked") for number in range(2)]

    def one() -> Any:
        if first == "a first commit":
            return store.commit([begin(make, Start(CHILD, "start:first", "prog"))], ME)
        return store.create(
            make.start(CHILD), make.created(), ME, keys[0] if first.endswith("with a key") else None
        )

    made, refused = meeting(one, lambda: store.create(make.start(CHILD), make.created(), ME, keys[1]))
    assert not isinstance(made, Exception) and store.info(CHILD) is not None
    assert refused == Creation(CHILD, fresh=False, taken=True)
    assert store.keyed(keys[1]) is None, "the key would answer with the first one's execution"
    assert store.create(make.start(EID), make.created(), ME, keys[1]) == Creation(EID, fresh=True)
    assert store.keyed(keys[1]) == Creation(EID, fresh=False)


@pytest.mark.parametrize(("key", "again"), [("", False), ("mine", False), ("mine", True)])
def test_two_clients_that_draw_one_id_get_an_execution_each(store, make, meeting, key, again):
    """``again``: the second one's earlier attempt ended in doubt, and had not been carried out."""
    program = compile_playbook(ONE, kinds=default_registry()).program
    assert program is not None
    now_ms, bits = ids.EPOCH_MS + (CHILD >> ids.RANDOM_BITS), CHILD & ((1 << ids.RANDOM_BITS) - 1)

    def start(who: str, key: str) -> Any:
        wish = StartRequest({"who": who}, f"demo/{who}", principal=who, key=key, identity=[who])
        second = again and who == "second"
        return start_execution(program, wish, store, owner=ME, now_ms=now_ms, random_bits=bits, again=second)

    one, two = meeting(lambda: start("first", key and "first"), lambda: start("second", key and "second"))
    assert one.execution_id == CHILD and two.execution_id != CHILD
    for who, started in (("first", one), ("second", two)):
        assert store.info(started.execution_id).path == f"demo/{who}"
        assert started.event is not None and store.start_of(started.execution_id) == started.event
        if key:
            assert start(who, who).execution_id == started.execution_id, "asked again, it is the same"


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("carried_out", [False, True])
def test_a_start_without_a_key_that_is_in_doubt_takes_no_other_for_its_own(store, make, carried_out, begun):
    """It may have to wait for a place, so no engine begins it in its own commit. ``carried_out``: it is this client that has the id."""
    limited = ONE.replace("workflow:", "executor: { spec: { concurrency: { key: k, limit: 1 } } }\nworkflow:")
    program = compile_playbook(limited, kinds=default_registry()).program
    assert program is not None
    now_ms, bits = ids.EPOCH_MS + (CHILD >> ids.RANDOM_BITS), CHILD & ((1 << ids.RANDOM_BITS) - 1)

    def start(who: str, again: bool = False) -> Any:
        return start_execution(
            program,
            StartRequest({"who": who}, f"demo/{who}", principal=who),
            store,
            owner=ME,
            now_ms=now_ms,
            random_bits=bits,
            again=again,
            begin=lambda asked: True,
            origin=who,
        )

    first = start("mine" if carried_out else "theirs")
    if begun:
        store.commit([begin(make, first.event)], ME)
    found = start("mine", again=True)
    assert found.event is not None and (found.execution_id == CHILD) is carried_out
    assert store.info(found.execution_id).path == "demo/mine"
    assert start("mine", again=True) == found, "also when the first id that it drew was not its own"


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_start_that_the_engine_failed_on_takes_no_other_for_its_own(store, make, carried_out):
    """``carried_out``: the engine had begun it, and its answer was lost."""
    program = compile_playbook(ONE, kinds=default_registry()).program
    assert program is not None
    now_ms, bits = ids.EPOCH_MS + (CHILD >> ids.RANDOM_BITS), CHILD & ((1 << ids.RANDOM_BITS) - 1)
    if not carried_out:
        store.create(make.start(CHILD), make.created(), ME, None)

    def fail(start: Start) -> None:
        if carried_out:
            store.commit([begin(make, start)], ME)

    found = start_execution(
        program,
        StartRequest({}, "demo/mine"),
        store,
        owner=ME,
        now_ms=now_ms,
        random_bits=bits,
        begin=fail,
        origin="mine",
    )
    assert (found.execution_id == CHILD) is carried_out


def test_a_repeat_that_meets_its_first_attempt_gets_what_that_made(store, make, meeting):
    key = IdempotencyKey("order-7", "asked")
    creations = meeting(*[lambda: store.create(make.start(CHILD), make.created(), ME, key)] * 2)
    assert sorted(creations, key=lambda one: not one.fresh) == [
        Creation(CHILD, fresh=True),
        Creation(CHILD, fresh=False),
    ]
