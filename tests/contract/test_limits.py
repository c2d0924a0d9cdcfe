"""Slots and moments of keys that executions share: who gets one with a commit, who waits, and that nobody keeps what is over."""

from __future__ import annotations

import pytest

from noetl.domain import ids
from noetl.domain.commands import Command, LoopSlice
from noetl.domain.events import Parent
from noetl.domain.limits import Admission, Limit, Numbers
from noetl.domain.outcomes.outcomes import Outcome, Suspend
from noetl.ports.executions.execution_store import ChildrenWord, Committed
from tests.contract.builders import EID

OTHER, THIRD = EID + 1, EID + 2
TWO = (Limit("api", 2),)


def issue(make, store, commands, execution_id=EID, expected=0, **over) -> Committed:
    priority = max((one.priority for one in commands), default=0)
    change = make.change(
        expected, execution_id, issue=tuple(commands), limited=True, priority=priority, **over
    )
    return store.commit([change], "me")


def close(make, store, command, expected, execution_id=EID, **over) -> Committed:
    done = (command.command_id, command.attempt, command.turn)
    return store.commit([make.change(expected, execution_id, close=(done,), limited=True, **over)], "me")


def names(commands) -> list[tuple[int, str]]:
    return [(one.execution_id - EID, one.command_id) for one in commands]


def test_a_key_is_held_by_so_many_and_goes_to_the_highest_priority_then_to_the_oldest(make, store):
    store.heartbeat("me", 60)
    first = issue(make, store, [make.command(str(n), limits=TWO) for n in (1, 2, 3)])
    assert names(first.commands) == [(0, "1"), (0, "2")]
    assert issue(make, store, [make.command("1", OTHER, limits=TWO)], OTHER).commands == ()
    assert issue(make, store, [make.command("1", THIRD, limits=TWO, priority=5)], THIRD).commands == ()

    freed = close(make, store, first.commands[0], 1).commands
    assert names(freed) == [(2, "1")]
    assert freed[0].limits == TWO and freed[0].priority == 5
    assert names(close(make, store, first.commands[1], 2).commands) == [(0, "3")]
    assert names(close(make, store, freed[0], 1, THIRD).commands) == [(1, "1")]
    assert store.claim("me", 10) == []


@pytest.mark.parametrize("how", ["end", "drop"])
def test_what_is_given_up_gives_its_slots_back_and_waits_no_more(make, store, how):
    one = (Limit("api", 1),)
    issue(make, store, [make.command(str(n), limits=one) for n in (1, 2)])
    issue(make, store, [make.command("1", OTHER, limits=one)], OTHER)
    over = {"end": True, "status": "cancelled"} if how == "end" else {"drop_runs": (1, 2)}
    given = store.commit([make.change(1, limited=True, **over)], "me").commands
    assert names(given) == [(1, "1")]
    assert close(make, store, given[0], 1, OTHER).commands == ()


def test_a_holder_whose_worker_died_holds_on_in_its_next_attempt(make, harness):
    store = harness.store
    store.heartbeat("dead", 0.2)
    one = (Limit("api", 1),)
    change = make.change(issue=tuple(make.command(str(n), limits=one) for n in (1, 2)), limited=True)
    assert names(store.commit([change], "dead").commands) == [(0, "1")]
    harness.sleep(0.3)
    again = store.claim("me", 10)
    assert [(one.command_id, one.attempt) for one in again] == [("1", 2)]
    freed = close(make, store, again[0], 1)
    assert [(one.command_id, one.attempt) for one in freed.commands] == [("2", 1)]


def test_two_keys_are_taken_together_or_not_at_all(make, store):
    """Who waits for the one does not stand in the way of those who only need the other."""
    wide, narrow = Limit("wide", 2), Limit("narrow", 1)
    first = issue(
        make, store, [make.command("1", limits=(narrow, wide)), make.command("2", limits=(narrow, wide))]
    )
    assert names(first.commands) == [(0, "1")]
    other = issue(
        make,
        store,
        [make.command("1", OTHER, limits=(wide,)), make.command("2", OTHER, limits=(wide,))],
        OTHER,
    )
    assert names(other.commands) == [(1, "1")]
    # wide is free again, and narrow is not: the one who needs both lets the other by
    assert names(close(make, store, other.commands[0], 1, OTHER).commands) == [(1, "2")]
    # narrow is free, and wide is not: now it is wide that is waited for
    assert close(make, store, first.commands[0], 1).commands != ()


def test_whoever_is_next_may_need_keys_that_nobody_thought_of(make, store):
    """One claim gives out three that are queued at one key, each of which has another key as well."""
    store.heartbeat("me", 60)
    linked = [(Limit("narrow", 1), Limit(other, 1)) for other in ("x", "y", "z")]
    issue(make, store, [make.command("1", limits=(Limit("narrow", 1),))])
    waiting = [make.command(str(n), OTHER, limits=keys) for n, keys in enumerate(linked, 1)]
    assert issue(make, store, waiting, OTHER).commands == ()
    store.set_limit("narrow", Numbers(10), "operator")
    assert names(store.claim("me", 10)) == [(1, "1"), (1, "2"), (1, "3")]


def test_a_rate_gives_everyone_a_moment(make, harness):
    store = harness.store
    rated = (Limit("api", rate=10, per=1, burst=2),)
    first = issue(make, store, [make.command(str(n), limits=rated) for n in range(1, 6)]).commands
    assert names(first) == [(0, str(n)) for n in range(1, 6)]
    assert [round(one.delay, 1) for one in first] == [0, 0, 0.1, 0.2, 0.3]
    later = issue(make, store, [make.command("1", OTHER, limits=rated)], OTHER).commands
    assert 0.2 < later[0].delay <= 0.4
    store.release("me")
    assert set(names(store.claim("you", 10))) <= {(0, "1"), (0, "2"), (0, "3"), (0, "4")}
    harness.sleep(0.6)
    assert (1, "1") in names(store.claim("you", 10))


def test_a_slot_and_a_moment(make, harness):
    """The moment is asked for when the slot is there."""
    store = harness.store
    both = (Limit("api", 1, rate=2, per=1),)
    first = issue(make, store, [make.command(str(n), limits=both) for n in (1, 2)]).commands
    assert [(one.command_id, one.delay) for one in first] == [("1", 0)]
    (second,) = close(make, store, first[0], 1).commands
    assert second.command_id == "2" and 0 < second.delay <= 0.5
    harness.sleep(0.6)
    assert close(make, store, second, 2).commands == ()
    (third,) = issue(make, store, [make.command("3", limits=both)], expected=3).commands
    assert third.delay == pytest.approx(0, abs=0.5)


def test_a_paused_execution_is_given_nothing_until_it_goes_on(make, store):
    store.heartbeat("me", 60)
    one = (Limit("api", 1),)
    first = issue(make, store, [make.command("1", limits=one)])
    issue(make, store, [make.command("1", OTHER, limits=one)], OTHER)
    store.commit([make.change(1, OTHER, status="paused")], "me")
    assert close(make, store, first.commands[0], 1).commands == ()
    assert store.claim("me", 10) == []
    store.commit([make.change(2, OTHER)], "me")
    assert [(one.command_id, one.attempt) for one in store.claim("me", 10)] == [("1", 1)]


def test_each_item_of_a_parallel_loop_counts(make, store):
    """One item in a command; a suspended item that goes on alone keeps the slot that its command had."""
    loop = make.loop(4, 10, first=4, limits=TWO)
    given = list(store.commit([make.change(loops=(loop,), limited=True)], "me").commands)
    assert [one.loop.start for one in given] == [0, 1]
    asleep = Outcome("suspended", suspend=Suspend({}, delay=0.0))
    alone = Command(
        EID, "1.r0.0.i", 1, "each", "prog", "io", turn=1, loop=LoopSlice(0, 0, 1, -1, "item", "parallel")
    )
    row = make.row("item:1:0:0:t1", seq=0, type="retry.scheduled", facts=b"{}", lane=1)
    batch = make.items(given[0], 0, outcomes={0: asleep}, rows=(row,), resumed=(alone,), limited=True)
    _, gone_on = store.commit_items([batch], "me")
    assert [(one.command_id, one.turn) for one in gone_on.commands] == [("1.r0.0.i", 1)]
    _, next_one = store.commit_items([make.items(given[1], 1, limited=True)], "me")
    assert [one.loop.start for one in next_one.commands] == [2]
    assert next_one.commands[0].loop.items == [{"n": 2}]
    _, last = store.commit_items([make.items(gone_on.commands[0], 0, limited=True)], "me")
    assert [one.loop.start for one in last.commands] == [3]


@pytest.mark.parametrize("waits", [False, True], ids=["resumed", "for its child"])
def test_an_item_that_goes_on_alone_takes_the_slot_of_a_command_that_is_still_open(make, store, waits):
    """The last message of the command is on its way. An item that waits for its child is not given out when a slot comes free."""
    store.heartbeat("me", 60)
    loop = make.loop(2, 10, first=2, limits=TWO)
    given = list(store.commit([make.change(loops=(loop,), limited=True)], "me").commands)
    asleep = Outcome("suspended", suspend=Suspend({}, delay=0.0))
    piece = LoopSlice(0, 0, 1, -1, "item", "parallel")
    alone = Command(EID, ids.item_command_id(1, 0, 0), 1, "each", "prog", "io", turn=1, loop=piece)
    row = make.row("item:1:0:0:t1", seq=0, type="retry.scheduled", facts=b"{}", lane=1)
    heirs = {"waiting" if waits else "resumed": (alone,)}
    first = make.items(
        given[0], 0, outcomes={0: asleep}, rows=(row,), limited=True, closed=False, undone=None, **heirs
    )
    _, continues = store.commit_items([first], "me")
    assert [one.command_id for one in continues.commands] == ([] if waits else [alone.command_id])
    _, closed = store.commit_items([make.items(given[0], limited=True)], "me")
    assert (closed.commands, store.claim("me", 10)) == ((), [])
    _, rest = store.commit_items(
        [make.items(one, i, limited=True) for i, one in ((0, alone), (1, given[1]))], "me"
    )
    assert [event.event_id for event in rest.events] == [ids.loop_done_event(1, 0)]


# --- executions ---

ALONE = Admission("execution:demo", 1, "queue")


def admit(make, store, execution_id, admission=ALONE):
    return store.admit(make.start(execution_id), make.created(), admission, "me")


def begin(make, store, execution_id) -> Committed:
    return store.commit([make.change(0, execution_id, events=(make.row("start"),), handled=("start",))], "me")


def end(make, store, execution_id, expected=1) -> Committed:
    return store.commit(
        [make.change(expected, execution_id, end=True, status="completed", limited=True)], "me"
    )


def test_executions_wait_for_each_other_by_priority_and_age(make, store):
    store.heartbeat("me", 60)
    assert admit(make, store, EID)[0].status == "held"
    begin(make, store, EID)
    waits = [admit(make, store, one) for one in (OTHER, THIRD)]
    assert [one.status for one, _ in waits] == ["queued", "queued"] and waits[0][0].holders == (EID,)
    assert admit(make, store, OTHER + 9, Admission("execution:demo", 1, "queue", 3))[0].status == "queued"
    assert store.info(OTHER).version == 0 and store.undelivered("me", 10) == []
    assert store.queued_starts([EID, OTHER, OTHER + 9, OTHER + 50]) == {OTHER, OTHER + 9}
    given = end(make, store, EID).events
    assert [(one.execution_id, one.event_id) for one in given] == [(OTHER + 9, "start")]
    assert admit(make, store, OTHER + 9)[0].status == "held", "asked again by whoever handles its Start"
    begin(make, store, OTHER + 9)
    assert [one.execution_id for one in end(make, store, OTHER + 9).events] == [OTHER]
    assert admit(make, store, EID)[0].status == "held", "what has begun asks for nothing"
    assert [use.execution_id for use in store.limit_keys()[0].holders] == [OTHER]


def test_an_execution_that_waits_may_be_cancelled(make, store):
    admit(make, store, EID)
    admit(make, store, OTHER)
    admit(make, store, THIRD)
    over = make.change(0, OTHER, status="cancelled", end=True, limited=True)
    assert store.commit([over], "me").events == ()
    assert store.open_work(OTHER)["outbox"] == 0
    begin(make, store, EID)
    assert [one.execution_id for one in end(make, store, EID).events] == [THIRD]


def test_what_waits_behind_an_execution_that_is_paused_takes_its_turn_at_once(make, store):
    """The first in the queue asks for the only slot of one, the next for one of two."""
    one, other, third = ((Limit("api", most),) for most in (2, 1, 2))
    issue(make, store, [make.command("1", limits=one)])
    assert issue(make, store, [make.command("1", OTHER, limits=other)], OTHER).commands == ()
    assert issue(make, store, [make.command("1", THIRD, limits=third)], THIRD).commands == ()
    paused = store.commit([make.change(1, OTHER, status="paused", limited=True)], "me")
    assert names(paused.commands) == [(2, "1")]


def test_what_waits_behind_a_child_that_is_paused_before_it_began_takes_its_turn_at_once(make, store):
    store.heartbeat("me", 60)
    start = make.start(EID + 9, parent=Parent(EID, "2", 1, run=2))
    store.commit([make.change(outbox=(start,))], "me")
    two = Admission("execution:demo", 2, "queue")
    assert admit(make, store, OTHER, two)[0].status == "held"
    begin(make, store, OTHER)
    child = make.created(parent_execution_id=EID)
    assert store.admit(start, child, ALONE, "me")[0].status == "queued"
    assert admit(make, store, THIRD, two)[0].status == "queued"
    words = (ChildrenWord("pause", "pause:1", 1),)
    told = store.commit([make.change(1, status="paused", words=words)], "me")
    assert [(one.execution_id, one.event_id) for one in told.events] == [(THIRD, "start")]


def test_one_too_many_is_refused_or_takes_the_place_of_the_oldest(make, store):
    admit(make, store, EID)
    begin(make, store, EID)
    refused, _ = admit(make, store, OTHER, Admission("execution:demo", 1, "refuse"))
    assert (refused.status, refused.most, refused.holders) == ("refused", 1, (EID,))
    assert store.info(OTHER) is None
    waits, events = admit(make, store, THIRD, Admission("execution:demo", 1, "cancel_oldest"))
    assert waits.status == "queued"
    assert [(one.execution_id, one.event_id) for one in events] == [(EID, f"excess:{THIRD}")]
    assert "takes its place" in events[0].reason
    _, again = admit(make, store, THIRD, Admission("execution:demo", 1, "cancel_oldest"))
    assert again == []
    done = make.change(1, handled=(f"excess:{THIRD}",), end=True, status="cancelled", limited=True)
    assert [one.execution_id for one in store.commit([done], "me").events] == [THIRD]


def test_of_a_burst_the_newest_stay(make, harness):
    """Those that wait are replaced, too: else the newest would begin last."""
    store = harness.store
    store.heartbeat("me", 60)
    newest = Admission("execution:demo", 2, "cancel_oldest")
    burst = [EID + number for number in range(6)]
    replaced = []
    for execution_id in burst:
        _, events = admit(make, store, execution_id, newest)
        replaced += [(one.execution_id, one.event_id) for one in events]
    assert replaced == [(old, f"excess:{new}") for old, new in zip(burst, burst[2:], strict=False)]


# --- operators ---


def test_an_operators_numbers_win_and_are_told_with_who_holds_and_waits(make, harness):
    store = harness.store
    store.heartbeat("me", 60)
    first = issue(make, store, [make.command(str(n), limits=TWO) for n in (1, 2, 3)])
    (key,) = store.limit_keys()
    assert (key.key, key.numbers, key.source) == ("api", Numbers(2), "playbook")
    assert (key.in_use, key.waiting) == (2, 1)
    assert [(one.execution_id, one.step, one.run, one.alive) for one in key.holders] == [
        (EID, "fetch", 1, True),
        (EID, "fetch", 2, True),
    ]
    (wait,) = store.waits_of(EID)
    assert (wait.key, wait.step, wait.run, wait.most, wait.in_use, wait.position) == (
        "api",
        "fetch",
        3,
        2,
        2,
        1,
    )
    assert wait.holders == (EID,)
    assert store.queued_starts([EID]) == frozenset(), "a command waits, its execution has begun"

    store.set_limit("api", Numbers(3, rate=1, per=60), "root")
    assert names(store.claim("me", 10)) == [(0, "3")]
    assert store.claim("me", 10) == []
    (later,) = issue(
        make, store, [make.command("1", OTHER, limits=(Limit("api", rate=9),))], OTHER
    ).commands or (None,)
    assert later is None, "the operator's three slots hold for whoever uses the key"
    (key,) = store.limit_keys(key="api")
    assert (key.source, key.principal, key.numbers.concurrent) == ("operator", "root", 3)
    assert key.next_at is not None

    assert store.remove_limit("api") and not store.remove_limit("api")
    assert names(store.claim("me", 10)) == [(1, "1")]
    assert close(make, store, first.commands[0], 1).commands == ()
    assert store.limit_keys(after="api") == [] and store.waits_of(OTHER) == []


def test_a_key_without_its_operator_has_what_playbooks_ask_for(make, store):
    store.set_limit("api", Numbers(0), "root")
    store.set_limit("unused", Numbers(0, rate=2, per=5, burst=3), "root")
    issue(make, store, [make.command("1", limits=(Limit("api", 7, rate=4, per=2, burst=3),))])
    assert store.remove_limit("api") and store.remove_limit("unused")
    found = [(one.key, one.source, one.numbers) for one in store.limit_keys()]
    assert found == [
        ("api", "playbook", Numbers(7, rate=4, per=2, burst=3)),
        ("unused", "playbook", Numbers()),
    ]


def test_a_moment_is_told(make, store):
    rated = (Limit("api", rate=1, per=60),)
    issue(make, store, [make.command(str(n), limits=rated) for n in (1, 2)])
    (wait,) = store.waits_of(EID)
    assert (wait.key, wait.run) == ("api", 2) and 50 < wait.at - wait.since <= 60
