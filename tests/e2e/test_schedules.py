"""What starts by itself on the real deployment: a schedule that fires, and events and messages told more than once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from noetl.domain.automations.schedules import instant, parse_instant
from tests.parts import parted
from tests.waiting import wait_until

EVENTS = Path(__file__).resolve().parents[2] / "events"
TICK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: tick
  path: e2e/tick
  schedule: { name: e2e-tick, rate: 1 day, catch_up: all, payload: { word: fired } }
workload: { word: by hand }
workflow:
  - step: start
    tool: { kind: noop, args: { said: "{{ workload.word }}" } }
"""
TOLD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: told, path: e2e/told }
workload: { event: null }
workflow:
  - step: start
    tool: { kind: noop, args: { id: "{{ workload.event.id }}" } }
"""


def register(deployment: Any, text: str) -> None:
    answer = deployment.api("POST", "/api/catalog/register", {"content": text})
    assert answer.status in (200, 201), answer


def completed(deployment: Any, execution_id: str) -> Any:
    def ended() -> bool:
        return bool(deployment.api("GET", f"/api/executions/{execution_id}/status").body["ended"])

    wait_until(ended, f"the end of {execution_id}")
    answer = deployment.api("GET", f"/api/executions/{execution_id}/result")
    assert answer.status == 200, answer
    return answer.body["result"]


def started(deployment: Any, path: str) -> list[str]:
    page = deployment.api("GET", "/api/executions?limit=500").body
    return [one["execution_id"] for one in page["executions"] if one["path"] == path]


def let_it_come(deployment: Any, name: str) -> None:
    """What EventBridge Scheduler has of a schedule, once more and due now: nothing waits for a real day.

    The emulator looks every second at what is due, by the same way for all expressions.
    """
    scheduler, group = deployment.client("scheduler"), f"noetl-{deployment.environment}"
    found = scheduler.get_schedule(GroupName=group, Name=name)
    assert (found["ScheduleExpression"], found["State"]) == ("rate(1 day)", "ENABLED")
    scheduler.create_schedule(
        GroupName=group,
        Name=f"{name}-now",
        ScheduleExpression=f"at({time.strftime('%Y-%m-%dT%H:%M:00', time.gmtime())})",
        FlexibleTimeWindow=found["FlexibleTimeWindow"],
        Target=found["Target"],
        ActionAfterCompletion="DELETE",
    )


def test_a_schedule_fires_and_pausing_it_stops_it(deployment: Any) -> None:
    register(deployment, TICK)
    before = set(started(deployment, "e2e/tick"))
    schedule = deployment.api("GET", "/api/schedules/e2e-tick").body
    assert (schedule["state"], schedule["declared"], schedule["rate"]) == ("active", True, "1 day")
    group = deployment.client("scheduler").list_schedules(GroupName=f"noetl-{deployment.environment}")
    assert "e2e-tick" in [one["Name"] for one in group["Schedules"]]
    let_it_come(deployment, "e2e-tick")

    def fired() -> Any:
        return deployment.api("GET", "/api/schedules/e2e-tick").body["last_execution_id"]

    execution_id = wait_until(fired, "the schedule's firing")
    assert completed(deployment, execution_id) == {"said": "fired"}
    row = deployment.api("GET", "/api/schedules/e2e-tick").body
    again, error = deployment.invoke("scheduler", {"schedule": "e2e-tick", "scheduled_time": row["last_at"]})
    assert (again, error) == (None, None)
    assert deployment.api("POST", "/api/schedules/e2e-tick/pause").body["state"] == "paused"
    late = instant(parse_instant(row["last_at"]) + 86_400)
    deployment.invoke("scheduler", {"schedule": "e2e-tick", "scheduled_time": late})
    found = set(started(deployment, "e2e/tick")) - before
    assert found == {execution_id}, "told twice, started once; paused, not started"
    assert deployment.api("DELETE", "/api/schedules/e2e-tick").status == 200
    group = deployment.client("scheduler").list_schedules(GroupName=f"noetl-{deployment.environment}")
    assert "e2e-tick" not in [one["Name"] for one in group["Schedules"]]


@pytest.mark.parametrize(
    "name", parted(["eventbridge/refund.json", "s3/object_created.json"], ["eventbridge/refund.json"])
)
def test_an_event_that_is_told_twice_starts_one_execution(deployment: Any, name: str) -> None:
    register(deployment, TOLD)
    before = set(started(deployment, "e2e/told"))
    told = {**json.loads((EVENTS / name).read_text()), "path": "e2e/told"}
    for _ in range(2):
        assert deployment.invoke("scheduler", told) == (None, None)
    (execution_id,) = set(started(deployment, "e2e/told")) - before
    assert completed(deployment, execution_id) == {"id": told["event"]["id"]}


def test_what_the_function_does_not_understand_is_an_error(deployment: Any) -> None:
    _, error = deployment.invoke("scheduler", {"source": "acme.shop", "detail-type": "Refund"})
    assert error is not None and "none of them" in error["message"]
