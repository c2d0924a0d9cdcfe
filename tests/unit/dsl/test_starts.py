"""``metadata.schedule`` and ``metadata.triggers`` as the Program carries them, and as EventBridge is asked for them."""

from __future__ import annotations

import jsonschema
import pytest
import yaml

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.editors.schema import playbook_schema
from noetl.dsl.program import EventBridgeTrigger, S3Trigger, ScheduleSpec, SqsTrigger, decode, encode
from noetl.dsl.triggers import event_pattern, queue_name
from noetl.kinds.registry import default_registry
from tests.parts import over

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: started\n"
SEEN = "{ seen: '{{ workload.event }}', at: '{{ workload.schedule.at }}', day: '{{ workload.day }}' }"
TAIL = f"workflow:\n  - step: start\n    tool: {{ kind: noop, args: {SEEN} }}\n"
STARTED = """\
  schedule:
    cron: " 0  6 * * mon-fri"
    timezone: Europe/Berlin
    payload: { day: today, limits: [1, 2] }
    enabled: false
    catch_up: all
    catch_up_max: 5
    overlap: cancel_previous
  triggers:
    - { type: s3, bucket: orders-in, prefix: in/, suffix: .csv, events: [created, created, deleted] }
    - { type: eventbridge, name: paid, pattern: { source: [shop], detail: { total: [ { numeric: [ ">", 10 ] } ] } }, bus: shop }
    - { type: sqs, queue: "arn:aws:sqs:eu-west-1:123456789012:orders.fifo", batch: 5 }
    - { type: s3, bucket: returns-in }
"""


def compiled(metadata: str):
    return compile_playbook(HEAD + metadata + TAIL, kinds=default_registry())


def test_the_program_carries_them_as_data():
    found = compiled(STARTED)
    program = decode(encode(found.program))
    assert program.schedule == ScheduleSpec(
        cron="0 6 * * MON-FRI",
        timezone="Europe/Berlin",
        payload={"day": "today", "limits": [1, 2]},
        enabled=False,
        catch_up="all",
        catch_up_max=5,
        overlap="cancel_previous",
    )
    assert program.triggers == (
        S3Trigger("s3-1", "orders-in", "in/", ".csv", ("created", "deleted")),
        EventBridgeTrigger(
            "paid", {"source": ["shop"], "detail": {"total": [{"numeric": [">", 10]}]}}, "shop"
        ),
        SqsTrigger("sqs-1", "arn:aws:sqs:eu-west-1:123456789012:orders.fifo", 5),
        S3Trigger("s3-2", "returns-in"),
    )
    assert found.diagnostics == (), "what arrives from outside is a known name of the workload"


def test_without_them_a_program_is_encoded_as_it_was():
    tail = "workflow:\n  - step: start\n"
    encoded = encode(compile_playbook(HEAD + tail, kinds=default_registry()).program)
    assert b"schedule" not in encoded and b"triggers" not in encoded


def test_rates_get_their_one_spelling():
    assert compiled(
        "  schedule: { rate: 1 minutes, payload: { day: x, event: 1 } }\n"
    ).program.schedule == ScheduleSpec(rate="1 minute", payload={"day": "x", "event": 1})


@over(
    ("trigger", "expected"),
    [
        (S3Trigger("t", "b"), {"detail": {"bucket": {"name": ["b"]}}}),
        (S3Trigger("t", "b", "in/"), {"detail": {"bucket": {"name": ["b"]}, "object": {"key": [{"prefix": "in/"}]}}}),
        (S3Trigger("t", "b", "", ".csv"), {"detail": {"bucket": {"name": ["b"]}, "object": {"key": [{"suffix": ".csv"}]}}}),
        (
            S3Trigger("t", "b", "a*\\", ".csv"),
            {"detail": {"bucket": {"name": ["b"]}, "object": {"key": [{"wildcard": "a\\*\\\\*.csv"}]}}},
        ),
    ],
)  # fmt: skip
def test_a_bucket_is_watched_by_a_rule(trigger, expected):
    assert event_pattern(trigger) == {"source": ["aws.s3"], "detail-type": ["Object Created"], **expected}


def test_a_deletion_is_another_event_and_patterns_pass_as_they_are():
    assert event_pattern(S3Trigger("t", "b", events=("deleted",)))["detail-type"] == ["Object Deleted"]
    assert event_pattern(EventBridgeTrigger("t", {"source": ["x"]})) == {"source": ["x"]}


@pytest.mark.parametrize("queue", ["orders", "arn:aws:sqs:eu-west-1:123456789012:orders"])
def test_a_queue_is_known_by_its_name(queue):
    assert queue_name(SqsTrigger("t", queue)) == "orders"


@pytest.mark.parametrize(
    ("metadata", "fits"),
    [
        (STARTED, True),
        ("  schedule: { rate: 5 minutes }\n", True),
        ("  schedule: { cron: 0 0 1 * MON }\n", False),
        ("  schedule: { rate: 5 seconds }\n", False),
        ("  schedule: { rate: 5 minutes, catch_up: none, overlap: skip }\n", True),
        ("  schedule: { rate: 5 minutes, catch_up: sometimes }\n", False),
        ("  schedule: { rate: 5 minutes, catch_up_max: 1001 }\n", False),
        ("  triggers: [ { type: kafka } ]\n", False),
        ("  triggers: [ { type: s3 } ]\n", False),
        ("  triggers: [ { type: sqs, queue: 'https://sqs/q' } ]\n", False),
    ],
)
def test_editors_are_told_the_same(metadata, fits):
    schema = playbook_schema(default_registry())
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert validator.is_valid(yaml.safe_load(HEAD + metadata + TAIL)) == fits
