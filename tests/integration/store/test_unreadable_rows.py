"""One damaged row in each table: readers serve the rows beside it, and say which one they could not read."""

from __future__ import annotations

import logging

import psycopg
import pytest

from noetl.adapters.memory import MemoryCatalog
from noetl.adapters.postgres import Database, PostgresExecutionStore
from noetl.adapters.postgres.event_batches import PostgresEventBatches
from noetl.adapters.postgres.executions import unreadable_rows
from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.adapters.postgres.schedule_store import PostgresScheduleStore
from noetl.adapters.postgres.trigger_store import PostgresTriggerStore
from noetl.domain.automations.triggers import SqsSource
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Cancel
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.unreadable import UnreadableRowError
from noetl.ports.automations.schedule_store import ScheduleRow
from noetl.ports.automations.trigger_store import TriggerRow
from noetl.ports.executions.changes import Poll, Wake
from noetl.runtime.local.event_inbox import DATABASE
from noetl.runtime.local.lease_keeper import DOUBTFUL
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.automations.fire_schedule import fire_due
from noetl.services.automations.schedules import view
from noetl.services.executions.start_playbook import StartDeps
from noetl.services.history.history_pages import history
from noetl.services.history.replay import replay
from noetl.services.queries.read_execution import describe, list_executions
from tests.contract.builders import EID, Make
from tests.waiting import wait_until

pytestmark = pytest.mark.postgres
ME, OTHER = "me", "other"
DAMAGE = ("[]", '{"execution_id": "no number"}', '{"type": "event.of.a.newer.version", "event_id": "x"}', "7")


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    monkeypatch.setattr(unreadable_rows, "_reported", {})


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture
def store(database):
    found = PostgresExecutionStore(database)
    for owner in (ME, OTHER):
        found.heartbeat(owner, 60)
    yield found
    found.close()


def run(database: str, statement: str, *values: object) -> list[tuple]:
    with psycopg.connect(database, autocommit=True) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def told(caplog) -> str:
    return "\n".join(record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_claim_goes_past_a_command_that_cannot_be_read(database, store, make, damage, caplog):
    commands = tuple(make.command(str(number)) for number in (1, 2, 3))
    store.commit([make.change(issue=commands)])
    run(database, "UPDATE noetl.command SET payload = %s WHERE command_id = '2'", damage)
    assert [command.command_id for command in store.claim(ME, 10)] == ["1", "3"]
    assert f"command 2 of execution {EID} cannot be read" in told(caplog)
    store.release(ME)
    store.heartbeat(ME, 60)
    caplog.clear()
    assert [command.command_id for command in store.claim(OTHER, 10)] == ["1", "3"]
    assert told(caplog) == "", "what is set aside is not tried again and again"
    assert PostgresInspection(store.database).outstanding().unreadable == 1
    # Repaired, or read by a newer version: it is taken up by itself when its time is over.
    run(
        database,
        "UPDATE noetl.command SET payload = (SELECT payload FROM noetl.command WHERE command_id = '1') WHERE command_id = '2'",
    )
    run(database, "UPDATE noetl.command SET owner = 'until:1:unreadable' WHERE command_id = '2'")
    assert len(store.claim(OTHER, 10)) == 1
    assert PostgresInspection(store.database).outstanding().unreadable == 0


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_outbox_goes_past_an_event_that_cannot_be_read(database, store, make, damage, caplog):
    events = tuple(Cancel(EID + number, "cancel", "p") for number in (1, 2, 3))
    store.commit([make.change(outbox=events)])
    run(database, "UPDATE noetl.outbox SET payload = %s WHERE execution_id = %s", damage, EID + 2)
    assert [event.execution_id for event in store.undelivered(ME, 10)] == [EID + 1, EID + 3]
    assert f"event cancel in the outbox of execution {EID + 2} cannot be read" in told(caplog)
    caplog.clear()
    assert store.undelivered(OTHER, 10) == [] and told(caplog) == ""
    assert PostgresInspection(store.database).outstanding().unreadable == 1


def test_more_bad_rows_than_a_claim_takes_keep_none_waiting(database, store, make):
    store.commit([make.change(issue=tuple(make.command(str(number)) for number in range(1, 8)))])
    run(database, "UPDATE noetl.command SET payload = '[]' WHERE command_id < '6'")
    claimed = [command.command_id for _ in range(4) for command in store.claim(ME, 2)]
    assert claimed == ["6", "7"]


def test_a_commit_gives_out_what_can_be_read_of_what_it_wakes(database, store, make, caplog):
    store.commit([make.change(waiting=(make.command("1"), make.command("2")))], ME)
    run(database, "UPDATE noetl.command SET payload = '[]' WHERE command_id = '1'")
    wakes = (Wake("1", 0, Outcome("ok")), Wake("2", 0, Outcome("ok")))
    assert [command.command_id for command in store.commit([make.change(1, wakes=wakes)], ME).commands] == [
        "2"
    ]
    assert "command 1 of" in told(caplog)
    assert PostgresInspection(store.database).outstanding().unreadable == 1


def test_what_a_statement_gave_is_doubtful_when_a_bad_row_cannot_be_set_aside(
    store, make, monkeypatch, database
):
    """The caller has lost what the commit gave it: a code that says "not done" would leave it leased to a living process for ever."""
    store.commit([make.change(waiting=(make.command("1"), make.command("2")))], ME)
    run(database, "UPDATE noetl.command SET payload = '[]' WHERE command_id = '1'")
    plain = Database.run

    def busy(self, name, params):
        if name == "set_aside":
            raise InfrastructureError("all connections are in use", code="database_busy")
        return plain(self, name, params)

    monkeypatch.setattr(Database, "run", busy)
    wakes = (Wake("1", 0, Outcome("ok")), Wake("2", 0, Outcome("ok")))
    with pytest.raises(InfrastructureError) as failed:
        store.commit([make.change(1, wakes=wakes)], ME)
    assert failed.value.code == "outcome_unknown" and failed.value.code in DOUBTFUL & DATABASE
    monkeypatch.undo()
    store.release(ME)
    store.heartbeat(ME, 60)
    assert [command.command_id for command in store.claim(ME, 10)] == ["2"]


def test_work_elsewhere_is_asked_beside_a_command_that_cannot_be_read(database, store, make):
    commands = tuple(make.command(str(number), remote=True, delay=60.0) for number in (1, 2))
    store.commit([make.change(issue=commands)], ME)
    run(database, "UPDATE noetl.command SET payload = '[]' WHERE command_id = '1'")
    polls = [Poll(EID, name, 1, 0, {"n": 1}, 60.0) for name in ("1", "2")]
    assert [command.command_id for command in store.ask_again(polls, ME)] == ["2"]
    assert [command.command_id for command in store.wake_early([(EID, "1"), (EID, "2")], ME)] == ["2"]


@pytest.mark.parametrize(
    "damage", ["[]", "{}", '{"v": 1}', '{"tokens": {"a": 1}}', '{"v": "two"}', '{"status": "unheard-of"}']
)
def test_a_state_that_cannot_be_read_is_shown_as_such(database, store, make, damage):
    for number in (0, 1, 2):
        store.commit([make.change(execution_id=EID + number, events=(make.row("start", seq=1),))])
    run(database, "UPDATE noetl.execution SET state = %s WHERE execution_id = %s", damage, EID + 1)
    found = list_executions(store, limit=10, now=0.0)
    assert [(one.execution_id, one.status, one.unreadable is None) for one in found] == [
        (str(EID + 2), "running", True),
        (str(EID + 1), "running", False),
        (str(EID), "running", True),
    ]
    view = describe(store, lambda name: None, EID + 1, now=0.0)
    assert view.unreadable and f"the state of execution {EID + 1} cannot be read" in view.unreadable[0]
    with pytest.raises(UnreadableRowError) as refused:
        replay(store, EID + 1)
    assert refused.value.code == "unreadable_row"


def test_history_that_cannot_be_read_is_shown_as_such(database, store, make):
    rows = tuple(make.row(f"cmd:{number}:0", seq=number) for number in (1, 2, 3))
    store.commit([make.change(events=rows)])
    run(database, "UPDATE noetl.event SET facts = '7' WHERE event_id = 'cmd:2:0'")
    (marker,) = history(store, EID)
    assert (marker.event_type, marker.entity_id, marker.status) == ("row.unreadable", "cmd:2:0", "error")
    view = describe(store, lambda name: None, EID, now=0.0)
    assert view.unreadable == ["event cmd:2:0 of history cannot be read: it is not a list of facts"]


@pytest.mark.parametrize(
    ("column", "damage"), [("payload", "[]"), ("cron", "every blue moon"), ("timezone", "Moon/Tycho")]
)
def test_schedules_fire_beside_one_that_cannot_be(database, store, column, damage):
    schedules = PostgresScheduleStore(database)
    for name in ("a", "b", "c"):
        schedules.put(ScheduleRow(name, "no/such/playbook", 0.0, cron="0 6 * * *", next_at=100.0))
    run(database, f"UPDATE noetl.schedule SET {column} = %s WHERE name = 'b'", damage)
    deps = start_deps(store)
    fired = {one.name: one.reason for one in fire_due(schedules, deps)}
    assert sorted(fired) == ["a", "b", "c"] and "schedule b is stopped" in fired["b"]
    shown = {one.name: view(one) for one in schedules.entries(limit=10)}
    assert "playbook" in str(shown["a"].last_error) and "playbook" in str(shown["c"].last_error)
    assert shown["b"].next_at is None and shown["b"].last_error
    assert list(fire_due(schedules, deps)) == [], "it is not tried every second"
    schedules.close()


def start_deps(store) -> StartDeps:
    def nothing(*_: object) -> None:
        return None

    return StartDeps(store, MemoryCatalog(), nothing, ME, lambda: 1_800_000_000.0, lambda: 1)


@pytest.mark.parametrize(("column", "damage"), [("source", '{"type": "s4"}'), ("payload", "[1]")])
def test_triggers_are_listed_and_found_beside_one_that_cannot_be_read(database, column, damage, caplog):
    triggers = PostgresTriggerStore(Database(database))
    for name in ("a", "b", "c"):
        triggers.put(TriggerRow(name, "sqs", "p", SqsSource("orders")))
    run(database, f"UPDATE noetl.trigger SET {column} = %s WHERE name = 'b'", damage)
    assert [(row.name, row.enabled) for row in triggers.entries(limit=9)] == [
        ("a", True),
        ("b", False),
        ("c", True),
    ]
    assert triggers.get("b").unreadable.startswith("trigger b cannot be read: ")
    assert [row.name for row in triggers.of_queue("orders")] == ["a", "c"]
    assert [row.name for row in triggers.entries(limit=9, kind="sqs")] == ["a", "c"]
    assert told(caplog).count("trigger b cannot be read") == 1


def test_a_batch_of_events_that_cannot_be_read_is_refused_by_its_number(database):
    batches = PostgresEventBatches(Database(database))
    for number in (1, 2):
        batches.accept(number, ["{}"], key="", fingerprint="f", principal="p")
    run(database, "UPDATE noetl.event_batch SET messages = '7' WHERE batch_id = 1")
    with pytest.raises(UnreadableRowError, match="event batch 1 cannot be read"):
        batches.begin(1, 60.0)
    assert batches.begin(2, 60.0).messages == ["{}"]
    assert list(batches.unfinished(0.0, 60.0, 10)) == [], "it is left alone until it is stale"


def test_items_are_counted_beside_a_loop_that_cannot_be_read(database, make):
    """A process that has not seen the loops before: the damaged one is named, the other goes on."""
    first = PostgresExecutionStore(database)
    loops = tuple(make.loop(4, 1, run=run) for run in (1, 2))
    commands = first.commit([make.change(loops=loops)], ME).commands
    first.close()
    run(database, "UPDATE noetl.loop SET payload = '[]' WHERE run = 1")
    store = PostgresExecutionStore(database)
    batches = [make.items(command, 0) for command in commands]
    answers, committed = store.commit_items(batches, ME)
    assert [answer.counted for answer in answers] == [1, 1]
    assert [(command.run, command.loop.start) for command in committed.commands] == [(2, 1)]
    assert PostgresInspection(store.database).outstanding().unreadable == 1, (
        "no living process is said to have the next chunk"
    )
    store.release(ME)
    assert [command.run for command in store.claim(OTHER, 10)] == [2]
    store.close()


def test_an_execution_whose_state_is_lost_is_cancelled_on_a_real_database(database, tmp_path):
    waits = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: w, path: w}
workflow: [{step: start, tool: {kind: wait, callback: true}}]
"""
    settings = Settings(home=tmp_path, database_url=database)
    with LocalRuntime(settings) as runtime:
        lost = runtime.start(runtime.register(waits, source_name="w.yaml"), {})
        wait_until(lambda: runtime.store.info(lost).version > 0)
    run(database, "UPDATE noetl.execution SET state = '{}' WHERE execution_id = %s", lost)
    with LocalRuntime(settings) as runtime:
        runtime.cancel(lost, "it is lost", "ann")
        runtime.run_until([lost], timeout=60)
        assert runtime.status(lost) == "cancelled" and replay(runtime.store, lost).agrees
