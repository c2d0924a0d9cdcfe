"""How long an execution was at work: its duration without rests, and without the time between an end and its redrive."""

from __future__ import annotations

import pytest

from noetl.domain.text.timestamps import read_timestamp
from tests.unit.api.ground import FAILING, GATED, HELLO, Ground

DOUBLE = 'kind: double, value: "{{ workload.n }}"'
APPROVAL = HELLO.replace(DOUBLE, "kind: wait, callback: true")


def shown(ground: Ground, execution_id: str) -> tuple[float, float]:
    """Seconds since the start, and at work; every answer says the same of the latter."""
    path = f"/api/executions/{execution_id}"
    one = ground.ask("GET", path).json
    (listed,) = ground.ask("GET", "/api/executions", query={"ids": execution_id}).json["executions"]
    status = ground.ask("GET", f"{path}/status").json
    assert one["active_seconds"] == listed["active_seconds"] == status["active_seconds"]
    return one["duration_ms"] / 1000, one["active_seconds"]


@pytest.fixture
def ground() -> Ground:
    return Ground()


@pytest.mark.parametrize("text", [APPROVAL, GATED], ids=["a callback", "admission"])
def test_waiting_for_a_person_is_no_work(ground, text):
    about = ground.start(ground.register(text)["path"])
    ground.settle()
    before = shown(ground, about)
    ground.database.now += 3600
    lasts, active = shown(ground, about)
    assert lasts - before[0] == pytest.approx(3600) and active == pytest.approx(before[1], abs=0.01)
    assert ground.ask("GET", f"/api/executions/{about}/status").json["status"] == "waiting"


def test_a_pause_is_no_work(ground):
    command = ground.issued()
    about = str(command.execution_id)
    ground.database.now += 100
    ground.ask("POST", f"/api/executions/{about}/pause", {})
    ground.decide()
    ground.database.now += 1000
    ground.ask("POST", f"/api/executions/{about}/resume", {})
    ground.decide()
    ground.database.now += 10
    lasts, active = shown(ground, about)
    assert (lasts, active) == (pytest.approx(1110, abs=1), pytest.approx(110, abs=1))


def test_the_time_before_a_redrive_is_no_work_and_rounds_are_counted(ground):
    about = ground.start(ground.register(FAILING)["path"])
    ground.settle()
    ground.database.now += 5000
    assert ground.ask("POST", f"/api/executions/{about}/redrive", {}).status < 300
    ground.settle()
    one = ground.ask("GET", f"/api/executions/{about}").json
    assert (one["rounds"], one["status"]) == (1, "failed")
    elapsed = read_timestamp(one["ended_at"]) - read_timestamp(one["started_at"])
    assert elapsed >= 5000 and one["active_seconds"] < 100
