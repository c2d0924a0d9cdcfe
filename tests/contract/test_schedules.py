"""Where schedules are kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError

from noetl.adapters.aws.scheduler import TIME, EventBridgeSchedules
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.ports.automations.schedules import ScheduleEntry
from tests.contract.clouds import mocked_aws
from tests.doubles.schedules import MemorySchedules

TARGET = "arn:aws:lambda:eu-central-1:123456789012:function:scheduler"
ROLE = "arn:aws:iam::123456789012:role/scheduler"
DEAD = "arn:aws:sqs:eu-central-1:123456789012:dead"
DAILY = ScheduleEntry(
    "daily", "etl/daily", cron="0 6 * * 1-5", timezone="Europe/Berlin", payload={"a": [1, "ä"]}
)


@dataclass
class Cloud:
    client: Any
    schedules: EventBridgeSchedules


@pytest.fixture
def cloud(monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        client = make_client("scheduler")
        client.create_schedule_group(Name="noetl-test")
        yield Cloud(client, EventBridgeSchedules("noetl-test", TARGET, ROLE, client, dead_letter_arn=DEAD))


@pytest.fixture(params=["memory", "eventbridge"])
def schedules(request):
    return MemorySchedules() if request.param == "memory" else request.getfixturevalue("cloud").schedules


def test_an_entry_is_kept_replaced_and_removed(schedules):
    assert schedules.get("daily") is None and schedules.delete("daily") is False
    schedules.put(DAILY)
    assert schedules.get("daily") == DAILY
    changed = ScheduleEntry("daily", "etl/other", rate="5 minutes", version=3, enabled=False)
    schedules.put(changed)
    schedules.put(changed)
    assert schedules.get("daily") == changed and list(schedules.entries()) == [changed]
    assert schedules.delete("daily") is True and schedules.delete("daily") is False
    assert schedules.get("daily") is None and list(schedules.entries()) == []


def test_all_are_listed_by_name(schedules):
    names = [f"s.{number:03}" for number in range(120)]
    for name in reversed(names):
        schedules.put(ScheduleEntry(name, "p", rate="1 hour"))
    assert [entry.name for entry in schedules.entries()] == names


def test_expressions_are_kept_in_their_one_spelling(schedules):
    schedules.put(ScheduleEntry("a", "p", cron="  0  6 * * mon "))
    schedules.put(ScheduleEntry("b", "p", rate="1 hours"))
    assert [(entry.cron, entry.rate) for entry in schedules.entries()] == [
        ("0 6 * * MON", None),
        (None, "1 hour"),
    ]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": ""}, "invalid_schedule_name"),
        ({"name": "a/b"}, "invalid_schedule_name"),
        ({"name": "x" * 65}, "invalid_schedule_name"),
        ({"name": "ä"}, "invalid_schedule_name"),
        ({"cron": "0 0 13 * 5"}, "invalid_cron"),
        ({"cron": None}, "invalid_schedule"),
        ({"rate": "5 minutes"}, "invalid_schedule"),
        ({"cron": None, "rate": "10 seconds"}, "invalid_rate"),
        ({"timezone": "Europe/Nowhere"}, "invalid_timezone"),
        ({"timezone": "../../etc/passwd"}, "invalid_timezone"),
    ],
)
def test_what_no_scheduler_takes_is_refused(schedules, changes, code):
    entry = msgspec.structs.replace(DAILY, **changes)
    with pytest.raises(InvalidInputError) as caught:
        schedules.put(entry)
    assert caught.value.code == code
    assert schedules.get(entry.name) is None and schedules.delete(entry.name) is False
    assert list(schedules.entries()) == []


def test_what_eventbridge_is_told(cloud):
    cloud.schedules.put(DAILY)
    found = cloud.client.get_schedule(GroupName="noetl-test", Name="daily")
    assert found["ScheduleExpression"] == "cron(0 6 ? * MON,TUE,WED,THU,FRI *)"
    assert (found["ScheduleExpressionTimezone"], found["State"]) == ("Europe/Berlin", "ENABLED")
    assert found["FlexibleTimeWindow"] == {"Mode": "OFF"}
    target = found["Target"]
    assert (target["Arn"], target["RoleArn"], target["DeadLetterConfig"]) == (TARGET, ROLE, {"Arn": DEAD})
    assert target["RetryPolicy"]["MaximumEventAgeInSeconds"] <= 86400
    assert json.loads(target["Input"]) == {
        "schedule": "daily",
        "path": "etl/daily",
        "version": None,
        "payload": {"a": [1, "ä"]},
        "scheduled_time": "<aws.scheduler.scheduled-time>",
    }


def test_a_payload_cannot_have_itself_replaced_by_the_service(cloud):
    payload = {"<aws.scheduler.execution-id>": TIME, "html": "<b>"}
    cloud.schedules.put(msgspec.structs.replace(DAILY, payload=payload))
    text = cloud.client.get_schedule(GroupName="noetl-test", Name="daily")["Target"]["Input"]
    assert text.count("<") == text.count(TIME) == 1
    assert json.loads(text)["payload"] == payload
    assert cloud.schedules.get("daily").payload == payload


def test_a_payload_that_is_too_large_is_refused(cloud):
    with pytest.raises(InvalidInputError) as caught:
        cloud.schedules.put(msgspec.structs.replace(DAILY, payload={"x": "ä" * 140_000}))
    assert caught.value.code == "schedule_too_large"


def test_schedules_of_others_in_the_group_are_left_alone(cloud):
    common = {
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ScheduleExpression": "rate(1 hour)",
        "GroupName": "noetl-test",
    }
    inputs = ["", "text", "[]", "{}", '{"schedule":1}']
    for place, text in enumerate(inputs):
        target = {"Arn": TARGET, "RoleArn": ROLE, **({"Input": text} if text else {})}
        cloud.client.create_schedule(Name=f"o{place}", Description="cron: x", Target=target, **common)
    cloud.client.create_schedule(
        Name="p", Target={"Arn": TARGET, "RoleArn": ROLE, "Input": '{"schedule":"p","path":"x"}'}, **common
    )
    cloud.schedules.put(DAILY)
    assert list(cloud.schedules.entries()) == [DAILY]
    assert cloud.schedules.get("o1") is None


class Answering:
    def __init__(self, code, message="words"):
        self.error = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": 400},
        }

    def create_schedule(self, **wanted):
        raise ClientError(self.error, "CreateSchedule")


def test_refusals_of_the_service():
    with pytest.raises(InvalidInputError, match="words") as caught:
        EventBridgeSchedules("g", TARGET, ROLE, Answering("ValidationException")).put(DAILY)
    assert caught.value.code == "schedule_refused"
    with pytest.raises(InfrastructureError, match="iam:PassRole"):
        EventBridgeSchedules("g", TARGET, ROLE, Answering("AccessDeniedException")).put(DAILY)
    with pytest.raises(InfrastructureError):
        EventBridgeSchedules("g", TARGET, ROLE, Answering("ResourceNotFoundException")).put(DAILY)
