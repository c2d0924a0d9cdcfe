"""Workers over HTTP: who is registered, what is offered to them, and what becomes of it when they fall silent."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain.errors import ConflictError, GoneError, InvalidInputError, NotFoundError
from noetl.domain.workers.lease_owners import lease, offered
from noetl.ports.executions.execution_store import Offer, Published
from noetl.services.worker.http_worker_leases import Claims
from tests.contract.builders import EID

ME = "engine-1"
LEASE = 1.2


@pytest.fixture
def registry(harness: Any) -> Any:
    if harness.kind == "memory":
        from tests.doubles.workers import MemoryWorkers

        return MemoryWorkers(harness.store)
    from noetl.adapters.postgres.workers import PostgresWorkers

    return PostgresWorkers(harness.store.database)


@pytest.fixture
def claims(harness: Any, registry: Any) -> Claims:
    return Claims(registry, harness.store, {"io", "python"}, lease_seconds=LEASE, keeps_pools=True)


def offer(harness: Any, make: Any, *names: str, pool: str = "python", **options: Any) -> None:
    """Commands that wait for workers of ``pool``."""
    harness.store.heartbeat(ME, 60)
    commands = tuple(make.command(name, pool=pool, **options) for name in names)
    harness.store.commit([make.change(issue=commands)], ME)
    harness.store.hand_over(ME, Published(commands=commands), heir=offered(pool))


def had(commands: Any) -> list[tuple[str, int]]:
    return [(one.command_id, one.attempt) for one in commands]


def test_a_name_is_one_workers_and_it_may_come_again(claims, registry):
    made = claims.register("odd: name\u00e9", "python", 3, "me")
    assert (made.pool, made.capacity, made.running, made.alive, made.commands) == ("python", 3, 0, True, [])
    again = claims.register("odd: name\u00e9", "io", 5, "me")
    assert (again.pool, again.capacity, again.registered_at) == ("io", 5, made.registered_at)
    assert again.seen_at >= made.seen_at and [one.name for one in claims.entries()] == [made.name]
    with pytest.raises(InvalidInputError, match="another principal's worker"):
        claims.register("odd: name\u00e9", "io", 5, "you")
    with pytest.raises(InvalidInputError, match="no pool 'gpu'"):
        claims.register("w", "gpu", 1, "me")
    assert registry.register("w", "io", 1, "me", 1) == "full"
    assert registry.register(made.name, "io", 1, "me", 1) == "registered", "whoever is here already stays"
    for foreign in (claims.heartbeat, claims.deregister):
        with pytest.raises(NotFoundError, match="register it"):
            foreign(made.name, "you")
    assert claims.heartbeat(made.name, "me").seen_at >= again.seen_at
    claims.deregister(made.name, "me")
    for what in (claims.heartbeat, claims.deregister, lambda name: claims.claim(name, 1)):
        with pytest.raises(NotFoundError, match="register it"):
            what(made.name)


def test_what_is_offered_is_claimed_up_to_a_workers_capacity_and_by_nobody_else(harness, make, claims):
    claims.register("a", "python", 2, "me")
    claims.register("b", "io", 9, "me")
    offer(harness, make, "1", "2", "3")
    assert had(harness.store.claim("sweeper", 9)) == [] and had(claims.claim("b", 9)) == []
    assert had(claims.claim("a", 9)) == [("1", 1), ("2", 1)], "the first attempt is the first"
    assert had(claims.claim("a", 9)) == []
    (a, b) = claims.entries()
    assert (a.running, b.running) == (2, 0)
    assert [(one.execution_id, one.command_id, one.attempt) for one in a.commands] == [
        (str(EID), "1", 1),
        (str(EID), "2", 1),
    ]
    assert all(0 < one.lease_seconds <= LEASE + 1.01 for one in a.commands)
    assert claims.give_back(EID, "2", 1, 0) and not claims.give_back(EID, "2", 1, 0)
    assert had(claims.claim("a", 9)) == [("2", 2)], "another attempt"


def test_a_silent_worker_loses_its_commands_and_one_that_is_heard_of_keeps_them(harness, make, claims):
    claims.register("silent", "python", 1, "me")
    claims.register("slow", "python", 1, "me")
    claims.register("able", "python", 9, "me")
    offer(harness, make, "1", "2")
    assert had(claims.claim("silent", 1)) == [("1", 1)] and had(claims.claim("slow", 1)) == [("2", 1)]
    for _ in range(4):
        harness.sleep(0.6)
        assert claims.renew_lease(EID, "2", 1, 0)
    assert had(claims.claim("able", 9)) == [("1", 2)], "what is kept alive stays"
    assert not claims.renew_lease(EID, "1", 1, 0) and not claims.give_back(EID, "1", 1, 0)
    assert {one.name: one.running for one in claims.entries()} == {"able": 1, "silent": 0, "slow": 1}
    claims.deregister("able")
    assert had(claims.claim("silent", 9)) == [("1", 3)], "at once"


def test_the_outcome_of_a_worker_that_has_left_counts_until_another_one_has_the_command(
    harness, make, claims
):
    """A worker that ends sends its outcomes, and leaves while the engine handles them."""
    claims.register("leaving", "python", 2, "me")
    claims.register("able", "python", 9, "me")
    offer(harness, make, "1", "2")
    assert had(claims.claim("leaving", 2)) == [("1", 1), ("2", 1)]
    claims.deregister("leaving")
    harness.store.commit([make.change(close=(("1", 1, 0),), expected=1)], ME)
    assert had(claims.claim("able", 9)) == [("2", 2)], (
        "the first one is over, and the other one is there at once"
    )


def test_what_nobody_keeps_is_anybodys(harness, make, claims, registry):
    """Without workers that live, and without a process that offers, others run it."""
    brief = Claims(registry, harness.store, {"python"}, lease_seconds=0.1)
    brief.register("a", "python", 1, "me")
    offer(harness, make, "1", "2")
    assert had(brief.claim("a", 9)) == [("1", 1)]
    assert had(harness.store.claim("sweeper", 1)) == [("2", 2)], (
        "the lease of 1 lasts a moment, its pool has none"
    )
    assert claims.give_back(EID, "1", 1, 0)
    assert had(harness.store.claim("sweeper", 1)) == [("1", 2)]


def test_one_command_by_its_name_or_the_reason_why_not(harness, make, claims):
    claims.register("a", "python", 2, "me")
    claims.register("b", "python", 9, "me")
    claims.register("c", "io", 9, "me")
    offer(harness, make, "1", "2")
    harness.store.commit(
        [
            make.change(
                execution_id=EID + 1,
                issue=(make.command("1", EID + 1, delay=900.0), make.command("3", EID + 1)),
                waiting=(make.command("2", EID + 1),),
            )
        ],
        ME,
    )
    assert had([claims.claim_one("a", EID, "2")]) == [("2", 1)]

    def refused(name: str, execution_id: int, command_id: str) -> tuple[str, Any]:
        with pytest.raises((ConflictError, NotFoundError)) as told:
            claims.claim_one(name, execution_id, command_id)
        return told.value.code, told.value.details.get("retry_after")

    code, again = refused("b", EID, "2")
    assert code == "command_leased" and 1 <= again <= LEASE + 2
    assert refused("c", EID, "1") == ("command_of_another_pool", 5)
    code, again = refused("b", EID + 1, "1")
    assert code == "command_not_due" and 890 < again <= 900
    assert refused("b", EID + 1, "2") == ("command_suspended", 5)
    code, again = refused("b", EID + 1, "3")
    assert code == "command_leased" and 50 < again <= 60, "the process that issued it"
    assert refused("b", EID, "9") == ("command_not_found", None)
    assert refused("b", EID + 9, "1") == ("command_not_found", None)
    claims.claim_one("a", EID, "1")
    assert refused("a", EID, "1")[0] == "worker_full"


def test_what_is_over_is_gone(harness, make, claims):
    claims.register("a", "python", 2, "me")
    offer(harness, make, "1")
    over = make.change(execution_id=EID + 1, status="completed", end=True)
    harness.store.commit([over], ME)
    for execution_id, code in ((EID + 1, "execution_ended"),):
        with pytest.raises(GoneError) as told:
            claims.claim_one("a", execution_id, "1")
        assert told.value.code == code


def test_the_engine_sees_pools_that_are_fetched_and_the_forgotten_are_not_listed(harness, claims, registry):
    claims.register("a", "python", 2, "me")
    claims.register("b", "python", 2, "me")
    if harness.kind == "postgres":
        assert harness.store.load([]).fetched == harness.store.fetched == {"python"}
    harness.sleep(0.2)
    registry.forget(60.0)
    assert len(claims.entries()) == 2
    registry.forget(0.1)
    assert claims.entries() == [] and harness.store.load([]).fetched == frozenset()


def test_what_was_leased_to_an_answer_is_extended_given_back_and_freed_without_a_worker(
    harness, make, registry
):
    """Leases of commands that came in the answer to a request: no worker is registered for them."""
    harness.store.heartbeat("sweeper", 60)
    names = ("1", "2", "3")
    owner = lease(harness.store.load([]).now + LEASE, "direct", "0123abcd")
    harness.store.commit([make.change(issue=tuple(make.command(name) for name in names))], owner)
    assert had(harness.store.claim("sweeper", 9)) == []
    assert registry.extend(EID, "1", 1, 0, 60) and not registry.extend(EID, "1", 2, 0, 60)
    assert registry.give_back(EID, "2", 1, 0)
    assert had(harness.store.claim("sweeper", 9)) == [("2", 2)]
    harness.store.commit([make.change(execution_id=EID + 1, issue=(make.command("9", EID + 1),))], owner)
    assert not registry.free("direct", "another")
    assert registry.free("direct", "0123abcd") and not registry.free("direct", "0123abcd")
    assert sorted(had(harness.store.claim("sweeper", 9))) == [("1", 2), ("3", 2), ("9", 2)]


def test_no_worker_is_told_the_name_of_a_lease_by_request(harness, make, claims, registry):
    """Who knows the name can free what is leased by it."""
    owner = lease(harness.store.load([]).now + LEASE, "direct", "0123abcd")
    harness.store.commit([make.change(issue=(make.command("1"),))], owner)
    claims.register("a", "io", 2, "p")
    with pytest.raises(ConflictError) as refused:
        claims.claim_one("a", EID, "1")
    assert refused.value.code == "command_leased" and "a worker has command 1" in refused.value.message


def test_leases_that_are_over_are_found_among_those_that_live(harness, make, registry):
    """They share a group in the index: each command says for itself whether its lease is over."""
    now = harness.store.load([]).now
    live, over = lease(now + 60, "direct", "0123abcd"), lease(now - 5, "direct", "4567cdef")
    for place, owner in enumerate([live, over, live, over, live]):
        execution = EID + place
        harness.store.commit(
            [make.change(execution_id=execution, issue=(make.command("1", execution),))], owner
        )
    assert had(harness.store.claim("python-worker", 9, Offer("python"))) == [], (
        "another pool has other leases"
    )
    claimed = [harness.store.claim("sweeper", 1) for _ in range(3)]
    assert [[one.execution_id for one in commands] for commands in claimed] == [[EID + 1], [EID + 3], []]
    assert registry.free("direct", "0123abcd")
    assert [one.execution_id for one in harness.store.claim("sweeper", 9)] == [EID, EID + 2, EID + 4]


def test_an_owner_that_asks_has_its_lease_even_when_it_is_over(harness, make):
    own = lease(harness.store.load([]).now - 5, "direct", "0123abcd")
    harness.store.commit([make.change(issue=(make.command("1"),))], own)
    assert harness.store.claim(own, 9) == []
    assert had(harness.store.claim("sweeper", 9)) == [("1", 2)]


def test_a_lease_is_released_by_its_name_and_no_other_with_it(harness, make):
    until = harness.store.load([]).now + 60
    owners = [lease(until, "direct", name) for name in ("0123abcd", "4567cdef")]
    for execution, owner in enumerate(owners, EID):
        change = make.change(execution_id=execution, issue=(make.command("1", execution),))
        harness.store.commit([change], owner)
    harness.store.release(owners[0])
    assert [one.execution_id for one in harness.store.claim("sweeper", 9)] == [EID]


@pytest.mark.parametrize(
    "owner",
    [
        *("until:5:http:python", "until:5:http:python:", "until:x:http:python:w", "until:http:python"),
        *("until::http:python:w", f"until:{'9' * 14}:http:python:w"),
    ],
)
def test_what_only_looks_like_a_lease_is_free_for_the_engine_and_for_no_worker(harness, make, owner):
    harness.store.commit([make.change(issue=(make.command("1"),))], owner)
    assert harness.store.claim("python-worker", 9, Offer("python")) == []
    assert had(harness.store.claim("sweeper", 9)) == [("1", 2)]


def test_a_principal_claims_in_no_name_of_another_one(harness, make, claims):
    claims.register("a", "python", 2, "me")
    offer(harness, make, "1")
    for take in (lambda: claims.claim("a", 9, "you"), lambda: claims.claim_one("a", EID, "1", "you")):
        with pytest.raises(NotFoundError, match="no worker 'a'"):
            take()
    assert had(claims.claim("a", 9, "me")) == [("1", 1)]
    with pytest.raises(NotFoundError):
        claims.deregister("a", "you")
    assert claims.heartbeat("a", "me").running == 1, "it keeps what it has"
    assert claims.heartbeat("a").running == 1, "an administrator names every worker"
