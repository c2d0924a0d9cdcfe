"""Commits, admissions and housekeeping that meet in the database never wait for each other in a circle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from noetl.domain.limits import Admission, Limit
from tests.contract.builders import EID
from tests.virtual_time import DatabaseClock
from tests.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.parametrize("harness", ["postgres"], indirect=True)]


@pytest.fixture
def database(database_clock: DatabaseClock) -> str:
    """The database of the store under test, whose time a test moves."""
    return database_clock.dsn


@pytest.fixture
def barrier(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A third party, whose locks hold the others up until each stands where the test wants it."""
    with psycopg.connect(database) as connection:
        yield connection


def meet(database: str, barrier: psycopg.Connection[Any], *calls: Callable[[], Any]) -> list[Any]:
    """Start each call when the ones before it wait for a lock; then the barrier goes. What each gave, or raised."""
    found: list[Any] = [None] * len(calls)

    def run(place: int, call: Callable[[], Any]) -> None:
        try:
            found[place] = call()
        except Exception as error:
            found[place] = error

    threads = []
    for place, call in enumerate(calls):
        thread = threading.Thread(target=run, args=(place, call))
        thread.start()
        threads.append(thread)
        wait_for_locks(database, place + 1)
    barrier.rollback()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return found


def wait_for_locks(database: str, count: int) -> None:
    with psycopg.connect(database, autocommit=True) as connection:

        def waiting() -> bool:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()
            return row is not None and row[0] >= count

        wait_until(waiting, f"the wait of {count} for a lock")


@pytest.mark.parametrize("known", [False, True])
def test_an_admission_and_a_commit_of_one_execution(harness, make, database, barrier, known):
    """The commit has the execution's rows when it asks for the lock of limits; the admission has that when it asks for the rows."""
    store = harness.store
    if known:
        store.create(make.start(), make.created())
    change = make.change(0, limited=True, handled=("start",), created=None if known else make.created())
    barrier.execute("SELECT noetl.lock_limits()")
    admission = Admission("execution:demo", 1, "queue")
    admitted, committed = meet(
        database,
        barrier,
        lambda: store.admit(make.start(), make.created(), admission, "me"),
        lambda: store.commit([change], "me"),
    )
    assert not isinstance(admitted, Exception) and not isinstance(committed, Exception), (admitted, committed)
    assert store.info(EID).version == 1 and admitted[0].status == "held"


def test_keys_that_are_forgotten_and_keys_that_are_asked_for(harness, make, database, barrier):
    """A commit asks for keys in their order; forgetting finds them in any order, and waits for none."""
    store = harness.store
    barrier.execute(
        "INSERT INTO noetl.limit_key (key, concurrent, declared, updated_at)"
        " SELECT key, 1, true, now() - interval '2 hours' FROM unnest(ARRAY['b', 'a']) AS k (key)"
    )
    barrier.commit()
    barrier.execute("SELECT FROM noetl.limit_key WHERE key = 'a' FOR UPDATE")
    store.forget_keys(86_400.0)
    barrier.rollback()
    assert [one.key for one in store.limit_keys()] == ["a"], "one that is in use is left for the next time"


def test_keys_do_not_wait_for_each_other(harness, make, database, barrier):
    """A commit that has the lock of one key is held up: another key's commits, admissions and claims go on."""
    store = harness.store
    store.heartbeat("me", 600)
    slow, quick, waits = (Limit("a", 1),), (Limit("b", 1),), EID + 2
    first = store.commit([make.change(issue=(make.command("1", limits=slow),), limited=True)], "me")
    barrier.execute("SELECT FROM noetl.limit_key WHERE key = 'a' FOR UPDATE")
    told = (Limit("a", 2),)
    held_up = make.change(1, issue=(make.command("2", limits=told),), limited=True)
    other = make.change(
        0, EID + 1, issue=tuple(make.command(str(n), EID + 1, limits=quick) for n in (1, 2)), limited=True
    )
    found = []

    def others():
        given = store.commit([other], "me").commands
        found.append([one.command_id for one in given])
        admission = Admission("execution:demo", 1, "queue")
        found.append(store.admit(make.start(waits), make.created(), admission, "me")[0].status)
        found.append(store.claim("me", 10))
        done = (given[0].command_id, given[0].attempt, given[0].turn)
        next_one = store.commit([make.change(1, EID + 1, close=(done,), limited=True)], "me").commands
        found.append([one.command_id for one in next_one])

    going_on = threading.Thread(target=others)

    def unhindered():
        wait_for_locks(database, 1)
        going_on.start()
        wait_until(lambda: len(found) == 4, "the end of what another key needs")

    waiting = threading.Thread(target=lambda: found.append(store.commit([held_up], "me")))
    waiting.start()
    try:
        unhindered()
    finally:
        barrier.rollback()
        waiting.join(PATIENCE)
        going_on.join(PATIENCE)
    assert found[:4] == [["1"], "held", [], ["2"]]
    assert [one.command_id for one in found[4].commands] == ["2"] and len(first.commands) == 1
