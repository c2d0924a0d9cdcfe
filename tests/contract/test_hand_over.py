"""Invocations, the queue, and what comes from outside: create with a key, post, hand_over."""

from __future__ import annotations

import pytest

from noetl.domain import ids
from noetl.domain.events import Cancel, ContextPatched
from noetl.domain.workers import lease_owners
from noetl.ports.executions.execution_store import Creation, IdempotencyKey, Posted, Published, TimerChange

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
OTHER = EID + 1


def test_the_queue_keeps_what_was_handed_to_it(harness, make):
    store = harness.store
    me = lease_owners.invocation(store.load([]).now + 120.0, "engine")
    events = tuple(ContextPatched(EID, name, "prog", []) for name in ("a", "b"))
    commands = (make.command("1"), make.command("2"))
    timers = (TimerChange("deadline:1", 1, 0.0), TimerChange("deadline:2", 1, 0.0))
    store.commit([make.change(issue=commands, outbox=events, timers=timers)], me)
    assert store.claim("sweeper", 10) == [] and store.undelivered("sweeper", 10) == []
    fired, _ = store.due_timers(me, 10)
    assert len(fired) == 2
    store.hand_over(
        me,
        Published(commands[:1], events[:1], ((EID, "deadline:1"),)),
        Published(commands[1:], events[1:], ((EID, "deadline:2"),)),
    )
    assert [(one.command_id, one.attempt) for one in store.claim("sweeper", 10)] == [("2", 2)]
    assert store.undelivered("sweeper", 10) == [events[1]]
    assert [event.timer for event in store.due_timers("sweeper", 10)[0]] == ["deadline:2"]


def test_an_invocation_holds_its_own_until_its_name_says(harness, make):
    store = harness.store
    now = store.load([]).now
    brief = lease_owners.invocation(now + 0.2, "engine")
    store.commit([make.change(issue=(make.command("1"),))], brief)
    assert store.claim("sweeper", 10) == []
    harness.sleep(2.1)
    (command,) = store.claim("sweeper", 10)
    assert command.attempt == 2
    # Too late: somebody else has it by now.
    store.hand_over(brief, Published((command,)))
    store.hand_over("sweeper", Published(), Published((command,)))
    assert [one.attempt for one in store.claim("another", 10)] == [3]


def test_events_that_their_owner_disowns_are_given_to_it_once_more(harness, make):
    store = harness.store
    store.heartbeat("me", 600)
    store.commit([make.change(0, one) for one in (EID, OTHER)], "me")
    given, kept = (Cancel(one, "ext:1", "prog", "why", "you") for one in (EID, OTHER))
    store.post_all([given, kept], "me")
    store.disown([given])
    store.disown([given], "another")
    assert store.undelivered("me", 10) == []
    store.disown([given], "me")
    assert store.undelivered("me", 10) == [given]
    assert store.undelivered("me", 10) == []


@pytest.mark.parametrize("skew", [600.0, -600.0])
def test_what_an_invocation_with_a_wrong_clock_leaves_is_taken_up_at_once(harness, make, skew):
    """Ten minutes ahead, its name would keep the others away for as long; ten minutes behind, its time is over when it begins."""
    store = harness.store
    owner = lease_owners.invocation(store.load([]).now + skew + 60.0, "engine")
    event = ContextPatched(EID, "a", "prog", [])
    store.commit([make.change(issue=(make.command("1"),), outbox=(event,))], owner)
    assert len(store.claim("sweeper", 10)) == 1 and store.undelivered("sweeper", 10) == [event]


def test_what_is_for_later_and_what_a_worker_has_taken_is_kept_for_as_long_as_it_says(harness, make):
    store = harness.store
    now = store.load([]).now
    for number, owner in enumerate(
        (lease_owners.later(now + 86_400.0), lease_owners.lease(now + 3600.0, "io", "w"))
    ):
        change = make.change(0, EID + number, issue=(make.command("1", EID + number),))
        store.commit([change], owner)
    assert store.claim("sweeper", 10) == []


def test_a_name_that_only_looks_like_an_invocation_holds_nothing(harness, make):
    store = harness.store
    store.commit([make.change(issue=(make.command("1"),))], "until:soon:me")
    assert len(store.claim("sweeper", 10)) == 1


def test_a_key_makes_one_execution(store, make):
    key = IdempotencyKey("order-7", "abc")
    assert store.create(make.start(), make.created(), key=key) == Creation(EID, fresh=True)
    assert store.create(make.start(OTHER), make.created(), key=key) == Creation(EID, fresh=False)
    other_wish = IdempotencyKey("order-7", "def")
    assert store.create(make.start(OTHER), make.created(), key=other_wish) == Creation(
        EID, fresh=False, same=False
    )
    assert store.keyed(key) == Creation(EID, fresh=False)
    assert store.keyed(other_wish) == Creation(EID, fresh=False, same=False)
    assert store.keyed(IdempotencyKey("order-8", "abc")) is None
    assert store.info(OTHER) is None
    assert len(store.undelivered("me", 10)) == 1


def test_keys_are_forgotten_by_age(harness, make):
    store = harness.store
    store.create(make.start(), make.created(), key=IdempotencyKey("k", "f"))
    store.forget_keys(60)
    assert not store.create(make.start(OTHER), make.created(), key=IdempotencyKey("k", "f")).fresh
    harness.sleep(0.1)
    store.forget_keys(0.05)
    assert store.create(make.start(OTHER), make.created(), key=IdempotencyKey("k", "f")).fresh


def test_what_comes_from_outside_reaches_only_live_executions(store, make):
    patch = ContextPatched(EID, "ext:1", "prog", [])
    assert store.post(patch) == Posted(None, 0, False)
    store.create(make.start(), make.created(), "me")
    assert store.post(patch) == Posted("running", 0, False)
    assert store.post(Cancel(EID, "ext:2", "prog")).posted
    store.commit([make.change(handled=("start",))])
    assert store.post(patch) == Posted("running", 1, True)
    assert store.undelivered("me", 10) == [Cancel(EID, "ext:2", "prog"), patch]
    store.commit([make.change(1, status="completed", end=True)])
    assert store.post(ContextPatched(EID, "ext:3", "prog", [])) == Posted("completed", 2, False)
