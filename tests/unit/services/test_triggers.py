"""What happened outside starts a playbook once, however often it is told."""

from __future__ import annotations

import itertools
import json

import pytest

from noetl.adapters.memory import MemoryCatalog, MemoryExecutionStore
from noetl.domain.automations.triggers import WebhookSource
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError
from noetl.kinds.registry import default_registry
from noetl.ports.automations.trigger_store import TriggerRow
from noetl.runtime.programs import Programs
from noetl.services.automations.fire_trigger import TriggerEvent, fire_trigger
from noetl.services.executions.start_from_trigger import (
    event_key,
    message_event,
    start_from_event,
    start_from_message,
)
from noetl.services.executions.start_playbook import StartDeps
from tests.doubles.trigger_store import MemoryTriggerStore
from tests.parts import over

CREATED = {
    "id": "2d4eba74-fd51-3966-4bfa-b013c9da8ff1",
    "detail-type": "Object Created",
    "source": "aws.s3",
    "detail": {
        "bucket": {"name": "orders-in"},
        "object": {"key": "in/a.csv", "size": 5, "version-id": "v1", "sequencer": "00617F08299329D189"},
    },
}
MESSAGE = {
    "messageId": "059f36b4-87a3-44ab-83d2-661975830a7d",
    "receiptHandle": "secret-enough",
    "body": '{"order": 7}',
    "attributes": {"ApproximateReceiveCount": "1"},
    "messageAttributes": {},
    "eventSource": "aws:sqs",
    "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:orders",
}


@pytest.fixture
def deps():
    catalog, bits = MemoryCatalog(), itertools.count()
    programs = Programs(catalog, default_registry())
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: it }\nworkflow:\n  - step: start\n"
    for path in ("a", "b"):
        programs.register(head, source_name="it.yaml", path=path)
    store = MemoryExecutionStore(lambda: 1.8e9)
    return StartDeps(store, catalog, programs, "me", lambda: 1.8e9, lambda: next(bits))


def changed(**changes):
    detail = {
        "bucket": {"name": changes.pop("bucket", "orders-in")},
        "object": {**CREATED["detail"]["object"], **changes.pop("object", {})},
    }
    return {**CREATED, "detail": detail, **changes}


def test_the_event_is_what_the_playbook_is_given(deps):
    started = start_from_event("a", "orders", CREATED, deps)
    assert started.event.payload == {"event": CREATED}
    assert (started.event.principal, started.event.principal_kind) == ("a:orders", "trigger")
    assert deps.store.info(started.execution_id).path == "a"


def test_an_event_that_is_told_twice_starts_one_execution_per_playbook(deps):
    first = start_from_event("a", "orders", CREATED, deps)
    again = start_from_event("a", "orders", changed(id="another", time="later"), deps)
    assert again.execution_id == first.execution_id and again.event is None
    assert start_from_event("b", "orders", CREATED, deps).event is not None
    assert len(deps.store.executions(limit=9)) == 2


def test_what_a_trigger_began_is_handed_to_the_engine_although_its_row_cannot_be_written(deps, monkeypatch):
    """It is this living process's, and the next delivery finds it begun: nothing else would hand it on."""
    deps.store.heartbeat("me", 600)
    table = MemoryTriggerStore(deps.clock)
    row = table.put(TriggerRow("it", "webhook", "a", WebhookSource()))
    happening = TriggerEvent({"n": 1}, "delivery:1")

    def fail(*asked, **more):
        raise InfrastructureError("in use", code="database_busy")

    with monkeypatch.context() as broken, pytest.raises(InfrastructureError):
        broken.setattr(table, "fired", fail)
        fire_trigger(row, happening, table, deps)
    again = fire_trigger(row, happening, table, deps)
    assert again.event is None
    assert [one.execution_id for one in deps.store.undelivered("me", 10)] == [again.execution_id]


@over(
    "other",
    [
        changed(object={"sequencer": "00617F08299329D190"}),
        changed(object={"version-id": "v2"}),
        changed(object={"key": "in/b.csv"}),
        changed(bucket="orders-out"),
        {**CREATED, "detail-type": "Object Deleted"},
        {**CREATED, "source": "my.s3"},
    ],
)
def test_another_change_is_another_event(other):
    assert event_key("a", other) != event_key("a", CREATED)


@over("detail", [{}, None, {"bucket": "b", "object": "o"}, {"bucket": {}, "object": {"sequencer": ""}}])
def test_without_a_sequencer_the_id_tells_events_apart(detail):
    one, two = ({**CREATED, "detail": detail, "id": name} for name in ("1", "2"))
    assert event_key("a", one) == event_key("a", dict(one)) != event_key("a", two)


@over("missing", ["id", "source", "detail-type"])
@over("value", [None, "", 7])
def test_what_is_no_event_is_refused(missing, value):
    with pytest.raises(InvalidInputError) as refused:
        event_key("a", {**CREATED, missing: value})
    assert refused.value.code == "not_an_event"


def test_a_message_is_given_without_its_receipt(deps):
    started = start_from_message("a", MESSAGE, deps)
    assert started.event.payload == {
        "event": {
            key: MESSAGE[key] for key in ("messageId", "attributes", "messageAttributes", "eventSourceARN")
        }
        | {"body": {"order": 7}}
    }
    again = start_from_message("a", {**MESSAGE, "attributes": {"ApproximateReceiveCount": "2"}}, deps)
    assert again.execution_id == started.execution_id and again.event is None
    other_queue = {**MESSAGE, "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:refunds"}
    assert start_from_message("a", other_queue, deps).event is not None


@over(
    ("body", "read"),
    [
        (' {"a": [1]}', {"a": [1]}),
        ("[1, 2]", [1, 2]),
        ("17", "17"),
        ("true", "true"),
        ('"x"', '"x"'),
        ("{broken", "{broken"),
        ("", ""),
        ('{"n": NaN}', '{"n": NaN}'),
        ("[" * 5000, "[" * 5000),
        ("[" * 300 + "]" * 300, "[" * 300 + "]" * 300),
        (json.dumps({"half": "\ud800"}), {"half": "\ud800"}),
    ],
)
def test_a_body_is_read_when_it_is_a_mapping_or_a_list(body, read):
    assert message_event({**MESSAGE, "body": body})["body"] == read


@over("broken", [{}, {"messageId": "1"}, {"messageId": None, "body": "x"}, {"messageId": "1", "body": {}}])
def test_what_is_no_message_is_refused(broken):
    with pytest.raises(InvalidInputError) as refused:
        message_event(broken)
    assert refused.value.code == "not_a_message"


def test_a_playbook_that_is_gone_is_told(deps):
    with pytest.raises(NotFoundError):
        start_from_event("gone", "t", CREATED, deps)
