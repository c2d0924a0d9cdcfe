"""Starts that are asked for a later time: kept, listed, cancelled, and started when their time has come."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from noetl.domain.automations.schedules import instant
from noetl.services.executions.start_execution import StartRequest, start_execution
from noetl.services.queries.diagnosis import DELIVERY_SECONDS
from tests.unit.api.ground import Ground


@pytest.fixture
def hello():
    ground = Ground()
    ground.register()
    return ground


def start_later(ground: Ground, seconds: float, **more):
    asked = {"path": "demo/hello", "trigger_at": instant(ground.database.now + seconds), **more}
    return ground.ask("POST", "/api/execute", asked)


def status(ground: Ground, execution_id: str) -> str:
    return ground.ask("GET", f"/api/executions/{execution_id}/status").json["status"]


def sweep(ground: Ground) -> int:
    """What a keeper or the maintenance of a deployment finds to publish."""
    found = ground.store.undelivered("sweeper", 100)
    ground.publisher.sent += found
    return len(found)


def test_what_is_to_start_later_is_not_stuck_and_what_was_taken_back_is_told_so(hello):
    made = start_later(hello, 3600).json
    analysis = f"/api/executions/{made['execution_id']}/analyze"
    told = hello.ask("POST", analysis, {}).json
    assert (told["status"], told["stuck"]) == ("scheduled", False)
    assert [one["kind"] for one in told["findings"]] == ["scheduled"]
    assert made["trigger_at"][:16] in told["verdict"]
    hello.ask("POST", f"/api/executions/{made['execution_id']}/cancel", {"reason": "not needed"})
    hello.settle()
    told = hello.ask("POST", analysis, {}).json
    assert (told["status"], told["findings"][0]["kind"]) == ("cancelled", "cancelled")


def test_a_start_that_an_earlier_version_kept_for_later_is_not_late_when_its_time_comes(hello):
    """Its row of the outbox says when it was written, or when the database was migrated."""
    made = start_later(hello, 3600).json
    with hello.store.tables() as tables:
        for entry in tables.outbox.values():
            entry.since -= 3600
    hello.database.now += 3601
    analysis = f"/api/executions/{made['execution_id']}/analyze"
    told = hello.ask("POST", analysis, {}).json
    assert (told["stuck"], told["findings"][0]["kind"]) == (False, "not_started")
    hello.database.now += DELIVERY_SECONDS
    assert hello.ask("POST", analysis, {}).json["stuck"]


def test_a_start_waits_for_its_time(hello):
    made = start_later(hello, 3600, payload={"n": 5})
    assert (made.status, made.json["status"]) == (201, "scheduled")
    execution_id, at = made.json["execution_id"], made.json["trigger_at"]
    assert hello.publisher.sent == [] and sweep(hello) == 0
    assert status(hello, execution_id) == "scheduled"
    (listed,) = hello.ask("GET", "/api/executions", query={"status": "scheduled"}).json["executions"]
    assert (
        listed["execution_id"],
        instant(datetime.fromisoformat(listed["started_at"]).timestamp()),
        listed["duration_ms"],
    ) == (
        execution_id,
        at,
        0,
    )
    assert hello.ask("GET", "/api/executions", query={"status": "running"}).json["executions"] == []
    hello.database.now += 3598
    assert sweep(hello) == 0
    hello.database.now += 2
    assert sweep(hello) == 1
    hello.settle()
    assert status(hello, execution_id) == "completed" and sweep(hello) == 0
    assert hello.ask("GET", f"/api/executions/{execution_id}/result").json["result"] is not None


def test_a_reader_whose_clock_is_behind_takes_no_start_for_a_later_one(hello):
    made = hello.ask("POST", "/api/execute", {"path": "demo/hello"}).json
    hello.deps = replace(hello.deps, clock=lambda: hello.database.now - 3600)
    assert status(hello, made["execution_id"]) == "running"
    assert hello.ask("GET", "/api/executions", query={"status": "scheduled"}).json["executions"] == []
    hello.deps = replace(hello.deps, clock=lambda: hello.database.now + 7200)
    assert status(hello, start_later(hello, 3600).json["execution_id"]) == "scheduled"


def test_it_is_cancelled_before_it_starts(hello):
    execution_id = start_later(hello, 3600).json["execution_id"]
    assert hello.ask("POST", f"/api/executions/{execution_id}/cancel", {"reason": "no"}).status == 202
    hello.settle()
    assert status(hello, execution_id) == "cancelled"
    hello.database.now += 3601
    assert sweep(hello) == 0, "its Start went with it"
    steps = hello.ask("GET", f"/api/executions/{execution_id}/steps").json["steps"]
    assert steps == []


def test_the_same_key_is_the_same_start_and_another_time_another_wish(hello):
    headers = {"idempotency-key": "once"}

    def ask(seconds):
        body = {"path": "demo/hello", "trigger_at": instant(hello.database.now + seconds)}
        return hello.ask("POST", "/api/executions", body, headers=headers)

    first, again = ask(60), ask(60)
    assert first.json == again.json and first.json["status"] == "scheduled"
    assert ask(61).status == 409


def test_a_time_that_has_passed_is_now(hello):
    made = start_later(hello, -3600)
    assert (made.json["status"], made.json["trigger_at"]) == ("started", None)
    hello.settle()
    assert status(hello, made.json["execution_id"]) == "completed"


@pytest.mark.parametrize(
    "trigger_at", ["tomorrow", "2026-03-01", "2026-02-30T00:00:00Z", "9999-01-01T00:00:00Z", 5]
)
def test_a_time_that_is_none_is_refused(hello, trigger_at):
    refused = hello.ask("POST", "/api/execute", {"path": "demo/hello", "trigger_at": trigger_at})
    assert refused.status == 422
    assert hello.ask("GET", "/api/executions").json["executions"] == []


@pytest.mark.parametrize("skew", [600.0, -600.0])
def test_a_start_for_later_is_one_by_the_clock_of_the_store(hello, skew):
    """A process that is ten minutes ahead would start it now, and one that is behind would keep what is due."""
    now = hello.database.now
    (program,) = [hello.database.programs(entry.program) for entry in hello.database.catalog.entries(limit=1)]
    for place, (ahead, waits) in enumerate(((300.0, True), (-300.0, False))):
        started = start_execution(
            program,
            StartRequest({}, at=now + ahead),
            hello.store,
            owner="me",
            now_ms=int((now + skew) * 1000),
            random_bits=place,
        )
        assert (started.event is None) is waits
