"""A commit whose answer is lost or cannot be read: what it gave out is claimed again, and nothing is silently left with its owner."""

import pytest

from noetl.adapters.postgres import PostgresExecutionStore
from noetl.adapters.postgres.connection import SILENT, UNKNOWN
from noetl.domain import ids
from noetl.domain.errors import InfrastructureError

pytestmark = pytest.mark.postgres

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
ME = "me"


def without_bodies(monkeypatch, database, kind):
    """Rows of ``kind`` lose their body on the way from the database."""
    run = database.run

    def broken(name, values):
        return [(*row[:4], None, *row[5:]) if row[0] == kind else row for row in run(name, values)]

    monkeypatch.setattr(database, "run", broken)


def test_commands_of_a_loop_that_the_answer_does_not_bring_are_claimed_again(
    store, make, monkeypatch, database
):
    store.heartbeat(ME, 60)
    other = PostgresExecutionStore(database)
    (first,) = other.commit([make.change(loops=(make.loop(3, 1),))], ME).commands
    other.close()
    with monkeypatch.context() as patched:
        without_bodies(patched, store.database, b"loop")
        with pytest.raises(InfrastructureError) as raised:
            store.commit_items([make.items(first, 0)], ME)
    assert raised.value.code == "outcome_unknown"
    (again,) = store.claim(ME, 10)
    assert (again.loop.items, again.attempt) == ([{"n": 1}], 2)
    _, committed = store.commit_items([make.items(again, 1)], ME)
    assert [command.loop.items for command in committed.commands] == [[{"n": 2}]]


def test_an_event_of_a_main_lane_commit_that_cannot_be_read_is_set_aside(store, make, monkeypatch, admin):
    store.heartbeat(ME, 60)
    with monkeypatch.context() as patched:
        without_bodies(patched, store.database, b"event")
        assert store.commit([make.change(loops=(make.loop(0, 1),))], ME).events == ()
    assert store.undelivered(ME, 10) == []
    admin.execute("UPDATE noetl.outbox SET owner = '' WHERE owner LIKE 'until:%:unreadable'")
    assert [event.event_id for event in store.undelivered(ME, 10)] == [ids.loop_done_event(1, 0)]


@pytest.mark.parametrize("code", [UNKNOWN, SILENT])
def test_what_a_commit_gave_out_is_claimed_again_when_no_answer_came(store, make, monkeypatch, code):
    store.heartbeat(ME, 60)
    run = store.database.run

    def unanswered(name, values):
        run(name, values)
        raise InfrastructureError("no answer", code=code)

    with monkeypatch.context() as patched:
        patched.setattr(store.database, "run", unanswered)
        with pytest.raises(InfrastructureError):
            store.commit([make.change(issue=(make.command("1"),))], ME)
    (again,) = store.claim(ME, 10)
    assert (again.command_id, again.attempt) == ("1", 2)
