"""Where triggers are kept, and who watches for them."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from botocore.exceptions import ClientError
from msgspec.structs import replace

from noetl.adapters.aws.event_rules import EventRules
from noetl.adapters.aws.queue_mappings import QueueMappings
from noetl.adapters.aws.trigger_sources import AwsTriggerSources
from noetl.domain.automations.trigger_queues import QueueRights
from noetl.domain.automations.triggers import (
    EventBridgeSource,
    FileSource,
    S3Source,
    SqsSource,
    WebhookSource,
)
from noetl.domain.errors import InvalidInputError, NoetlError
from noetl.ports.automations.trigger_store import TriggerRow, TriggerStore
from tests.contract.clouds import mocked_aws
from tests.doubles.trigger_sources import MemoryTriggerSources
from tests.doubles.trigger_store import MemoryTriggerStore
from tests.parts import over

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
    assert [row.name for row in triggers.of_queue("orders.fifo")] == ["c-queue"]
    assert (
        triggers.of_queue("orders")
        == []
        == triggers.of_queue("arn:aws:sqs:eu-central-1:123456789012:orders.fifo")
    )
    assert [row.name for row in triggers.of_path("p", limit=2)] == ["b_events", "c-queue"]
    assert [bare(row) for row in triggers.of_path("etl/load", limit=9)] == ROWS[:1]
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


def test_queues_are_found_beside_sources_and_payloads_that_hold_anything(triggers: TriggerStore):
    hostile = {"nul \0": ODD, "big": 10**3999, "queue": "\udfff"}
    arn = "arn:aws:sqs:eu-central-1:123456789012:orders"
    watch = TriggerRow("a", "eventbridge", "p", EventBridgeSource(hostile), payload=hostile)
    triggers.put(watch)
    triggers.put(TriggerRow("b", "sqs", "p", SqsSource(arn), payload=hostile))
    (found,) = triggers.of_queue(arn)
    assert (found.name, found.payload) == ("b", hostile)
    triggers.put(TriggerRow("b", "sqs", "p", SqsSource("other")))
    assert triggers.of_queue(arn) == []
    assert bare(triggers.get("a")) == watch


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
        rules.delete(ROWS[0])
    assert client.list_rules()["Rules"] == []


def test_what_is_no_rule_touches_nothing(client, rules):
    rules.put(ROWS[3])
    rules.delete(ROWS[3])
    assert client.list_rules()["Rules"] == []
    refused = [row.kind for row in ROWS if row.kind != "sqs" and rules.refusal(row)]
    assert refused == ["file"]
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
    told = {"Error": {"Code": "InvalidEventPatternException", "Message": "Event pattern is not valid"}}
    raise ClientError(told, "PutRule")


# --- queues ---------------------------------------------------------------------------------------------

OWN = "arn:aws:sqs:eu-central-1:123456789012:"
FOREIGN = "arn:aws:sqs:eu-central-1:210987654321:"
RIGHTS = QueueRights(
    TARGET, ("in-*", f"{FOREIGN}shared"), {"letters": ("etl/letters",), "in-read": ("a", "b")}
)
QUEUES = [OWN + name for name in ("in-orders", "in-other", "orders", "letters")]


class Mappings:
    """What Lambda does with the queues, as moto keeps it."""

    def __init__(self, make_client: Any) -> None:
        for arn in QUEUES:
            make_client("sqs").create_queue(QueueName=arn.rpartition(":")[2])
        trust = {"Statement": {"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}}
        role = make_client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(trust))
        self.client = make_client("lambda")
        self.client.create_function(
            FunctionName="scheduler",
            Runtime="python3.13",
            Role=role["Role"]["Arn"],
            Handler="h.h",
            Code={"ZipFile": _code()},
        )
        rules = EventRules("noetl-dev-t-", TARGET, DEAD, make_client("events"))
        self.sources = AwsTriggerSources(rules, QueueMappings(RIGHTS, self.client))

    def watched(self) -> dict[str, tuple[int, bool]]:
        found = self.client.list_event_source_mappings(FunctionName=TARGET)["EventSourceMappings"]
        assert all(one["FunctionResponseTypes"] == ["ReportBatchItemFailures"] for one in found)
        assert all(one["ScalingConfig"] == {"MaximumConcurrency": 2} for one in found)
        return {one["EventSourceArn"]: (one["BatchSize"], one["State"] == "Enabled") for one in found}


class Twin:
    def __init__(self) -> None:
        self.sources = MemoryTriggerSources(RIGHTS, QUEUES)

    def watched(self) -> dict[str, tuple[int, bool]]:
        rows = self.sources.watched.values()
        return {one.source.queue: (one.source.batch, one.enabled) for one in rows}


@pytest.fixture(params=["memory", "lambda"])
def queues(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "memory":
        yield Twin()
        return
    with mocked_aws(monkeypatch) as make_client:
        yield Mappings(make_client)


def _code() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("h.py", "")
    return packed.getvalue()


def queue_row(queue: str, batch: int = 10, enabled: bool = True) -> TriggerRow:
    return TriggerRow("q", "sqs", "p", SqsSource(queue, batch), enabled=enabled)


def test_a_queue_is_read_switched_off_and_on_changed_and_read_no_more(queues: Any):
    sources = queues.sources
    first = sources.whole(queue_row("in-orders", 3))
    assert first.source == SqsSource(OWN + "in-orders", 3) and sources.whole(first) == first
    assert sources.refusal(first) is None
    for _ in range(2):
        sources.put(first)
        assert queues.watched() == {OWN + "in-orders": (3, True)}
    paused = replace(first, enabled=False)
    sources.put(paused, first)
    assert queues.watched() == {OWN + "in-orders": (3, False)}
    sources.put(replace(first, source=SqsSource(OWN + "in-orders", 1)), paused)
    assert queues.watched() == {OWN + "in-orders": (1, True)}
    moved = sources.whole(queue_row("in-other"))
    sources.put(moved, first)
    assert queues.watched() == {OWN + "in-other": (10, True)}, "the queue it read before is read no more"
    for _ in range(2):
        sources.delete(moved)
        assert queues.watched() == {}


REFUSED = {
    "orders": "triggers.queues of this deployment allows in-*",
    FOREIGN + "in-orders": f"may not read the queue {FOREIGN}in-orders",
    "main-in-orders": "may not read",
    "letters": "start etl/letters already",
    "in-read": "start a, b already",
}


def test_queues_that_nobody_named_and_those_that_are_missing_are_refused(queues: Any):
    sources = queues.sources
    for queue, told in REFUSED.items():
        reason, hint = sources.refusal(sources.whole(queue_row(queue)))
        assert told in reason and "metadata.triggers" in hint
    assert sources.refusal(queue_row(FOREIGN + "shared")) is None
    with pytest.raises(InvalidInputError) as refused:
        sources.put(sources.whole(queue_row("in-nowhere")))
    assert refused.value.code == "trigger_source_missing" and "in-nowhere" in str(refused.value)
    assert queues.watched() == {}


@over(
    ("code", "message", "problem", "told"),
    [
        (
            "InvalidParameterValueException",
            "Error occurred while ReceiveMessage. SQS Error Code: AWS.SimpleQueueService.NonExistentQueue.",
            "trigger_source_missing",
            "in-orders",
        ),
        (
            "InvalidParameterValueException",
            "Queue visibility timeout: 5 seconds is less than Function timeout: 30 seconds",
            "trigger_refused",
            "visibility timeout: 5 seconds",
        ),
        ("ResourceInUseException", "The event source mapping is in use", "trigger_busy", "still at the last"),
        ("ResourceConflictException", "already exists", "trigger_busy", "still at the last"),
        ("AccessDeniedException", "not authorized", "aws_refused", "lambda CreateEventSourceMapping"),
    ],
)
def test_what_lambda_says_about_a_queue_is_told(code: str, message: str, problem: str, told: str):
    class Lambda:
        def list_event_source_mappings(self, **request: Any) -> Any:
            going = {"UUID": "u", "State": "Deleting"}
            return {"EventSourceMappings": [going]}

        def create_event_source_mapping(self, **request: Any) -> Any:
            raise ClientError({"Error": {"Code": code, "Message": message}}, "CreateEventSourceMapping")

    mappings = QueueMappings(RIGHTS, Lambda())
    with pytest.raises(NoetlError) as refused:
        mappings.put(mappings.whole(queue_row("in-orders")))
    assert refused.value.code == problem and told in str(refused.value)
    assert refused.value.retryable == (problem == "trigger_busy")


def test_names_of_rules_are_short_and_apart(rules):
    names = {rules.rule("x" * 47 + end) for end in "ab"} | {rules.rule("short")}
    assert len(names) == 3 and all(len(name) <= 64 and name.startswith("noetl-dev-t-") for name in names)


def test_no_name_can_be_chosen_so_that_it_has_the_rule_of_another(client):
    """The environment's name may have 16 letters, and then the names of rules are cut: what is cut looks like no name as it is."""
    rules = EventRules("noetl-abcdefghijklmnop-t-", TARGET, DEAD, client)
    taken = rules.rule("x" * 48)
    assert len(taken) == 64 and rules.rule(taken.removeprefix("noetl-abcdefghijklmnop-t-")) != taken
