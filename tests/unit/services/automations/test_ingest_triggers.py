"""What the scheduler function is invoked with: the sample payloads, repeats, and whatever else somebody may send."""

from __future__ import annotations

import copy
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replace_row

from noetl.adapters.memory import MemoryCatalog, MemoryExecutionStore
from noetl.domain.automations.triggers import EventBridgeSource, SqsSource
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError
from noetl.kinds.registry import default_registry
from noetl.ports.automations.trigger_store import TriggerRow
from noetl.runtime.programs import Programs
from noetl.services.automations import ingest_triggers
from noetl.services.automations.ingest_triggers import TriggerBatchDeps, take
from noetl.services.automations.register_schedules import register_schedule
from noetl.services.executions.start_playbook import StartDeps
from tests.doubles.schedule_store import MemoryScheduleStore
from tests.doubles.trigger_store import MemoryTriggerStore

EVENTS = Path(__file__).parents[4] / "events"
NOW = 1_772_400_000.0
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: it, path: {path}{more} }}\nworkflow:\n  - step: start\n"
DAILY = ", schedule: { name: reports.daily, cron: 0 6 * * *, timezone: Europe/Berlin, payload: { days: 1 } }"


class Ground:
    def __init__(self) -> None:
        catalog, bits = MemoryCatalog(), itertools.count()
        programs = Programs(catalog, default_registry())
        self.store = MemoryExecutionStore(lambda: NOW)
        self.schedules = MemoryScheduleStore()
        self.triggers = MemoryTriggerStore(lambda: NOW)
        self.log: list[str] = []
        for path, more in (("reports/daily", DAILY), ("import_orders", ""), ("audit", "")):
            entry = programs.register(HEAD.format(path=path, more=more), source_name="it.yaml")
            program = programs(entry.program)
            register_schedule(path, program, store=self.schedules, schedules=None, now=NOW)
        start = StartDeps(self.store, catalog, programs, "me", lambda: NOW, lambda: next(bits))
        self.deps = TriggerBatchDeps(
            start, self.schedules, self.triggers, {"orders": ["import_orders", "audit"]}, self.log.append
        )

    def take(self, invocation):
        return take(invocation, self.deps)

    def count(self) -> int:
        return len(self.store.executions(limit=99))


@pytest.fixture
def ground():
    return Ground()


def sample(name: str):
    return json.loads((EVENTS / name).read_text())


@pytest.mark.parametrize(
    ("name", "path", "payload"),
    [
        (
            "scheduler/daily_report.json",
            "reports/daily",
            {"days": 1, "schedule": {"name": "reports.daily", "at": "2026-03-02T05:00:00Z"}},
        ),
        ("eventbridge/refund.json", "import_orders", None),
        ("s3/object_created.json", "import_orders", None),
        ("s3/object_deleted.json", "import_orders", None),
    ],
)
def test_a_sample_starts_its_playbook_once(ground, name, path, payload):
    invocation = sample(name)
    taken = ground.take(invocation)
    (event,) = taken.events
    assert event.path == path and taken.executions == [event.execution_id] and taken.give_back is None
    assert event.payload == (payload or {"event": invocation["event"]})
    again = ground.take(sample(name))
    assert (again.executions, again.events) == ([event.execution_id], [])


def test_each_message_of_the_sample_starts_each_playbook_of_its_queue_once(ground):
    invocation = sample("sqs/orders.json")
    taken = ground.take(invocation)
    assert taken.give_back == []
    assert [(event.path, event.payload["event"]["body"]) for event in taken.events] == [
        ("import_orders", {"order": 4711, "items": ["A-1", "B-7"]}),
        ("audit", {"order": 4711, "items": ["A-1", "B-7"]}),
        ("import_orders", "plain text"),
        ("audit", "plain text"),
    ]
    again = ground.take(invocation)
    assert (again.executions, again.events, again.give_back) == (taken.executions, [], [])


def test_a_message_that_fails_is_given_back_and_the_others_are_not(ground):
    invocation = sample("sqs/orders.json")
    broken = copy.deepcopy(invocation["Records"][0])
    broken["messageId"], broken["eventSourceARN"] = "broken", "arn:aws:sqs:us-east-1:123456789012:unknown"
    invocation["Records"].insert(1, broken)
    taken = ground.take(invocation)
    assert taken.give_back == ["broken"] and len(taken.events) == 4
    assert "no playbook is started by the queue 'unknown'" in ground.log[0]


def test_a_message_whose_second_playbook_fails_is_finished_by_its_repeat(ground):
    ground.deps = replace(ground.deps, queues={"orders": ["import_orders", "gone"]})
    taken = ground.take(sample("sqs/orders.json"))
    assert len(taken.give_back) == 2 and [event.path for event in taken.events] == ["import_orders"] * 2
    ground.deps = replace(ground.deps, queues={"orders": ["import_orders", "audit"]})
    again = ground.take(sample("sqs/orders.json"))
    assert again.give_back == [] and [event.path for event in again.events] == ["audit"] * 2


def test_messages_behind_one_that_failed_wait_in_their_group(ground):
    record = sample("sqs/orders.json")["Records"][0]

    def message(number, group, queue="orders"):
        attributes = {**record["attributes"], "MessageGroupId": group}
        arn = f"arn:aws:sqs:us-east-1:123456789012:{queue}"
        return {**record, "messageId": number, "attributes": attributes, "eventSourceARN": arn}

    records = [message("1", "a", "unknown"), message("2", "b"), message("3", "a"), message("4", "b")]
    taken = ground.take({"Records": records})
    assert taken.give_back == ["1", "3"] and len(taken.events) == 4


def test_a_queue_of_the_table_starts_what_the_table_says_once_per_message(ground):
    ground.deps = replace(ground.deps, queues={})
    told = sample("sqs/orders.json")
    first, second = (record["messageId"] for record in told["Records"])
    assert ground.take(told).give_back == [first, second] and "no playbook is started" in ground.log[0]
    arn = told["Records"][0]["eventSourceARN"]
    row = TriggerRow("orders", "sqs", "audit", SqsSource(arn), payload={"order": "{{ event.body.order }}"})
    ground.triggers.put(row)
    taken = ground.take(told)
    (event,) = taken.events
    assert (event.path, event.payload) == ("audit", {"order": 4711})
    assert taken.give_back == [second], "a text has no order: the queue keeps it"
    again = ground.take(told)
    assert (again.executions, again.events, again.give_back) == ([event.execution_id], [], [second])
    kept = ground.triggers.get("orders")
    assert (kept.fired, kept.last_execution) == (1, event.execution_id) and "order" in kept.last_error
    ground.triggers.put(replace_row(row, payload=None, path="import_orders"))
    later = ground.take(told)
    assert [event.payload["event"]["body"] for event in later.events] == [
        "plain text"
    ] and later.give_back == []
    ground.triggers.put(replace_row(row, enabled=False))
    assert len(ground.take(told).give_back) == 2 and ground.count() == 2


def test_a_schedule_that_starts_nothing_is_no_error(ground):
    invocation = {**sample("scheduler/daily_report.json"), "schedule": "gone"}
    taken = ground.take(invocation)
    assert (taken.executions, taken.events) == ([], [])
    assert "there is no such schedule" in ground.log[0]
    ground.schedules.set_paused("reports.daily", True, None)
    assert ground.take(sample("scheduler/daily_report.json")).executions == []
    assert ground.count() == 0


def test_what_the_table_says_counts_not_what_is_told(ground):
    told = {**sample("scheduler/daily_report.json"), "path": "audit", "payload": {"days": 99}}
    (event,) = ground.take(told).events
    assert (event.path, event.payload["days"]) == ("reports/daily", 1)
    row = ground.schedules.get("reports.daily")
    assert (row.last_execution, row.last_at) == (event.execution_id, 1_772_427_600.0)


def test_an_event_whose_playbook_is_gone_stays_with_whoever_delivers_it(ground):
    with pytest.raises(NotFoundError):
        ground.take({**sample("eventbridge/refund.json"), "path": "gone"})


def test_a_trigger_of_the_table_starts_what_the_table_says_once(ground):
    told = {"trigger": "refunds", "event": sample("eventbridge/refund.json")["event"]}
    assert ground.take(told).executions == [] and "gone, or disabled" in ground.log[0]
    source = EventBridgeSource({"source": ["my.shop"]})
    row = TriggerRow("refunds", "eventbridge", "audit", source, payload={"id": "{{ event.id }}", "n": 1})
    ground.triggers.put(row)
    (event,) = ground.take(told).events
    assert (event.path, event.payload) == ("audit", {"id": told["event"]["id"], "n": 1})
    again = ground.take(told)
    assert (again.executions, again.events) == ([event.execution_id], [])
    kept = ground.triggers.get("refunds")
    assert (kept.fired, kept.failed, kept.last_execution) == (1, 0, event.execution_id)
    ground.triggers.put(replace_row(row, path="gone"))
    with pytest.raises(NotFoundError):
        ground.take(told)
    assert ground.triggers.get("refunds").failed == 1 and ground.triggers.get("refunds").last_error
    ground.triggers.put(replace_row(row, enabled=False))
    assert ground.take(told).executions == []


def test_a_database_that_is_away_gives_everything_back(ground, monkeypatch):
    def away(*args, **kwargs):
        raise InfrastructureError("away")

    monkeypatch.setattr(ground.store, "create", away)
    for name in ("scheduler/daily_report.json", "eventbridge/refund.json"):
        with pytest.raises(InfrastructureError):
            ground.take(sample(name))
    assert len(ground.take(sample("sqs/orders.json")).give_back) == 2
    monkeypatch.undo()
    assert len(ground.take(sample("scheduler/daily_report.json")).events) == 1


@pytest.mark.parametrize(
    "invocation",
    [
        {},
        {"detail-type": "Object Created", "source": "aws.s3", "detail": {}},
        {"schedule": "reports.daily"},
        {"schedule": ["x"], "scheduled_time": "2026-03-02T05:00:00Z"},
        {"schedule": "reports.daily", "scheduled_time": "<aws.scheduler.scheduled-time>"},
        {"trigger": "t", "path": "audit"},
        {"trigger": "t", "path": "audit", "event": "<event>"},
        {"trigger": "t", "path": "audit", "event": {"id": "1"}},
        {"trigger": "t", "path": 7, "event": {"id": "1", "source": "s", "detail-type": "d"}},
        {"trigger": ["t"], "event": {"id": "1", "source": "s", "detail-type": "d"}},
        {"Records": "x"},
        {"Records": [{"body": "no id"}]},
        {"Records": [7]},
    ],
)  # fmt: skip
def test_anything_else_is_refused(ground, invocation):
    with pytest.raises(InvalidInputError) as refused:
        ground.take(invocation)
    assert refused.value.code in ("invocation_unknown", "invalid_time", "not_an_event")
    assert ground.count() == 0


@pytest.mark.parametrize("defect", [TypeError("a defect"), SystemExit("a defect")])
def test_a_message_that_breaks_its_handler_takes_no_other_with_it(ground, monkeypatch, defect):
    invocation = sample("sqs/orders.json")
    broken = copy.deepcopy(invocation["Records"][0])
    broken["messageId"], broken["body"] = "broken", 7
    invocation["Records"].insert(1, broken)
    true = ingest_triggers.start_from_message

    def start(path, record, deps):
        if record["body"] == 7:
            raise defect
        return true(path, record, deps)

    monkeypatch.setattr(ingest_triggers, "start_from_message", start)
    taken = ground.take(invocation)
    assert taken.give_back == ["broken"] and len(taken.events) == 4
