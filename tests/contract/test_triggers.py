"""Where triggers are kept, and who watches for them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from noetl.adapters.aws.event_rules import EventRules
from noetl.adapters.memory.trigger_store import MemoryTriggerStore
from noetl.domain.errors import InvalidInputError
from noetl.domain.triggers import EventBridgeSource, FileSource, S3Source, SqsSource, WebhookSource
from noetl.ports.trigger_store import TriggerRow, TriggerStore
from tests.contract.clouds import mocked_aws

TARGET = "arn:aws:lambda:eu-central-1:123456789012:function:scheduler"
DEAD = "arn:aws:sqs:eu-central-1:123456789012:dead"
ODD = 'nul \x00 and "quotes" and \ud800'
ROWS = [
    TriggerRow("a.s3", "s3", "etl/load", S3Source("my-bucket", "raw/", ".csv", ("created", "deleted"))),
    TriggerRow(
        "b_events", "eventbridge", "p", EventBridgeSource({"source": ["my.app"], "detail": {"n": [1, None]}})
    ),
    TriggerRow("c-queue", "sqs", "p", SqsSource("orders.fifo", 3), enabled=False),
    TriggerRow(
        "d",
        "webhook",
        "p",
        WebhookSource(),
        version=2,
        payload={"x": ODD},
        event_key="{{ event.id }}",
        generation=4,
    ),
    TriggerRow("e", "file", "p", FileSource("/data/in", "*.csv", True)),
]


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def triggers(request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        yield MemoryTriggerStore(lambda: 1_800_000_000.0)
        return
    from noetl.adapters.postgres import Database
    from noetl.adapters.postgres.trigger_store import PostgresTriggerStore

    database = Database(request.getfixturevalue("database"))
    yield PostgresTriggerStore(database)
    database.close()


def bare(row: TriggerRow) -> TriggerRow:
    return replace(row, created_at=0.0, last_at=None)


def test_triggers_are_kept_listed_changed_and_removed(triggers: TriggerStore):
    for row in reversed(ROWS):
        assert bare(triggers.put(row)) == row
    assert [bare(row) for row in triggers.entries(limit=9)] == ROWS
    assert [row.name for row in triggers.entries(limit=2, after="a.s3")] == ["b_events", "c-queue"]
    assert [row.name for row in triggers.entries(limit=9, kind="file")] == ["e"]
    assert triggers.entries(limit=9, kind="sqs") == [], "it is disabled"
    assert triggers.get("nobody") is None and triggers.delete("nobody") is False
    assert triggers.delete("e") is True and triggers.get("e") is None


def test_what_came_of_it_is_counted_and_outlives_a_change(triggers: TriggerStore):
    made = triggers.put(ROWS[0])
    assert made.created_at > 0 and made.last_at is None
    triggers.fired("a.s3", 7)
    triggers.fired("a.s3", 7, fresh=False)
    triggers.fired("a.s3", None, error=ODD)
    triggers.fired("nobody", 8)
    row = triggers.get("a.s3")
    assert row is not None and row.last_at is not None
    assert (row.fired, row.failed, row.last_execution, bool(row.last_error)) == (1, 1, 7, True)
    changed = triggers.put(replace(ROWS[0], path="other", enabled=False))
    assert (changed.path, changed.enabled, changed.fired, changed.created_at) == (
        "other",
        False,
        1,
        row.created_at,
    )
    triggers.fired("a.s3", 9)
    after = triggers.get("a.s3")
    assert after is not None and (after.fired, after.last_execution, after.last_error) == (2, 9, "")


# --- rules of EventBridge -----------------------------------------------------------------------------


@pytest.fixture
def client(monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        yield make_client("events")


@pytest.fixture
def rules(client):
    return EventRules("noetl-dev-t-", TARGET, DEAD, client)


def test_a_rule_is_made_changed_and_removed(client, rules):
    rules.put(ROWS[0])
    rule = client.describe_rule(Name="noetl-dev-t-a.s3")
    assert rule["State"] == "ENABLED" and json.loads(rule["EventPattern"]) == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created", "Object Deleted"],
        "detail": {"bucket": {"name": ["my-bucket"]}, "object": {"key": [{"wildcard": "raw/*.csv"}]}},
    }
    (target,) = client.list_targets_by_rule(Rule="noetl-dev-t-a.s3")["Targets"]
    assert (target["Arn"], target["DeadLetterConfig"]) == (TARGET, {"Arn": DEAD})
    template = target["InputTransformer"]["InputTemplate"].replace("<event>", '{"id":"1"}')
    assert json.loads(template) == {"trigger": "a.s3", "event": {"id": "1"}}
    rules.put(replace(ROWS[0], enabled=False))
    assert client.describe_rule(Name="noetl-dev-t-a.s3")["State"] == "DISABLED"
    for _ in range(2):
        rules.delete("a.s3", "s3")
    assert client.list_rules()["Rules"] == []


def test_what_is_no_rule_touches_nothing(client, rules):
    rules.put(ROWS[3])
    rules.delete("d", "webhook")
    assert client.list_rules()["Rules"] == []
    refused = [row.kind for row in ROWS if rules.refusal(row)]
    assert refused == ["sqs", "file"]
    other = replace(ROWS[1], source=EventBridgeSource({"source": ["a"]}, bus="orders"))
    reason, hint = rules.refusal(other)
    assert "orders" in reason and "metadata.triggers" in hint


def test_a_pattern_that_eventbridge_refuses_is_told(client, rules):
    bad = replace(ROWS[1], source=EventBridgeSource({"source": [{"prefix": 5, "nonsense": 1}]}))
    client.put_rule = _refusing
    with pytest.raises(InvalidInputError) as refused:
        rules.put(bad)
    assert refused.value.code == "trigger_refused" and "Event pattern is not valid" in str(refused.value)


def _refusing(**request):
    from botocore.exceptions import ClientError

    told = {"Error": {"Code": "InvalidEventPatternException", "Message": "Event pattern is not valid"}}
    raise ClientError(told, "PutRule")


def test_names_of_rules_are_short_and_apart(rules):
    names = {rules.rule("x" * 47 + end) for end in "ab"} | {rules.rule("short")}
    assert len(names) == 3 and all(len(name) <= 64 and name.startswith("noetl-dev-t-") for name in names)
