"""Schedules through the API: what is made by hand, what a playbook declares, and what is refused."""

from __future__ import annotations

import pytest

from noetl.services.automations.register_schedules import register_schedule
from tests.unit.api.ground import HELLO

HOURLY = {"path": "demo/hello", "name": "hourly", "rate": "1 hour", "payload": {"n": 2}}


@pytest.fixture
def hello(ground):
    ground.register()
    return ground


def declare(ground) -> None:
    text = HELLO.replace("path: demo/hello", "path: demo/daily, schedule: {cron: 0 6 * * *}")
    program = ground.database.programs(ground.register(text)["program"])
    table, now = ground.database.schedules, ground.database.now
    register_schedule("demo/daily", program, store=table, schedules=ground.fires, now=now)


def test_made_and_replaced_in_the_table_and_where_it_fires(hello):
    made = hello.ask("POST", "/api/schedules", HOURLY)
    assert (made.status, made.headers["Location"]) == (201, "/api/schedules/hourly")
    assert made.json["state"] == "active" and not made.json["declared"]
    again = hello.ask("POST", "/api/schedules", {**HOURLY, "rate": "2 hours"})
    assert (again.status, again.json["rate"]) == (200, "2 hours")
    assert hello.fires.get("hourly").rate == "2 hours"
    assert hello.ask("GET", "/api/schedules/hourly").json == again.json


def test_paused_resumed_deleted(hello):
    hello.ask("POST", "/api/schedules", HOURLY)
    assert hello.ask("POST", "/api/schedules/hourly/pause").json["state"] == "paused"
    assert not hello.fires.get("hourly").enabled
    assert hello.ask("GET", "/api/schedules/hourly/next", query={"count": "3"}).json["active"] is False
    assert hello.ask("POST", "/api/schedules/hourly/resume").json["state"] == "active"
    assert hello.fires.get("hourly").enabled
    assert hello.ask("DELETE", "/api/schedules/hourly").json == {"name": "hourly", "deleted": True}
    assert hello.ask("DELETE", "/api/schedules/hourly").status == 404
    assert hello.fires.get("hourly") is None


def test_what_a_playbook_declares_is_changed_there(ground):
    declare(ground)
    refused = ground.ask("POST", "/api/schedules", {"path": "demo/daily", "rate": "1 hour"})
    assert (refused.status, refused.json["code"]) == (409, "schedule_declared")
    assert "demo/daily" in refused.json["detail"]


def test_pages_go_on_where_they_ended(hello):
    for number in range(5):
        hello.ask("POST", "/api/schedules", {**HOURLY, "name": f"s{number}"})
    names, after = [], None
    for _ in range(3):
        query = {"limit": "2"} | ({"after": after} if after else {})
        page = hello.ask("GET", "/api/schedules", query=query).json
        names += [one["name"] for one in page["schedules"]]
        after = page["next"]
    assert names == [f"s{number}" for number in range(5)] and after is None


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({**HOURLY, "path": "demo/helo"}, 404, "playbook_not_found"),
        ({**HOURLY, "cron": "0 0 * * *"}, 422, "invalid_schedule"),
        ({"path": "demo/hello", "cron": "0 0 30 2 *"}, 422, "invalid_cron"),
        ({**HOURLY, "timezone": "../../etc/passwd"}, 422, "invalid_timezone"),
        ({**HOURLY, "name": "a/b"}, 422, "invalid_schedule_name"),
        ({**HOURLY, "when": "now"}, 422, "body_invalid"),
        ({**HOURLY, "payload": []}, 422, "body_invalid"),
        ({**HOURLY, "version": 9}, 404, "playbook_not_found"),
    ],
)
def test_what_cannot_be_a_schedule_is_refused(hello, body, status, code):
    refused = hello.ask("POST", "/api/schedules", body)
    assert (refused.status, refused.json["code"]) == (status, code)
    assert hello.ask("GET", "/api/schedules").json["schedules"] == []


@pytest.mark.parametrize("count", ["0", "101", "-1", "x", "٣"])
def test_a_count_is_a_small_number(hello, count):
    hello.ask("POST", "/api/schedules", HOURLY)
    assert hello.ask("GET", "/api/schedules/hourly/next", query={"count": count}).status == 400


def test_a_backfill_starts_moments_of_the_past_once(hello):
    daily = {
        "path": "demo/hello",
        "name": "daily",
        "cron": "0 6 * * *",
        "payload": {"n": 4},
        "overlap": "skip",
    }
    made = hello.ask("POST", "/api/schedules", daily)
    assert (made.json["catch_up"], made.json["overlap"]) == ("once", "skip")
    days = {"from": "2026-02-27T00:00:00Z", "to": "2026-02-28T12:00:00Z"}
    planned = hello.ask("POST", "/api/schedules/daily/backfill", {**days, "dry_run": True}).json
    assert [one["status"] for one in planned["moments"]] == ["pending", "pending"] and planned["dry_run"]
    first = hello.ask("POST", "/api/schedules/daily/backfill", days, headers={"idempotency-key": "k"})
    assert first.status == 200 and [one["status"] for one in first.json["moments"]] == ["started", "started"]
    hello.settle()
    ended = [one["status"] for one in hello.ask("GET", "/api/executions").json["executions"]]
    assert ended == ["completed", "completed"]
    again = hello.ask("POST", "/api/schedules/daily/backfill", {**days, "only_missed": True}).json
    assert (again["moments"], again["next"]) == ([], None)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"from": "2026-02-27T00:00:00Z"},
        {"from": 1, "to": 2},
        {"from": "2026-02-27T00:00:00Z", "to": "2026-02-26T00:00:00Z"},
        {"from": "2026-02-27T00:00:00Z", "to": "2026-02-28T00:00:00Z", "limit": 501},
        {"from": "2026-02-27T00:00:00Z", "to": "2026-02-28T00:00:00Z", "since": "x"},
    ],
)
def test_a_backfill_of_nonsense_is_refused(hello, body):
    daily = {"path": "demo/hello", "name": "daily", "cron": "0 6 * * *"}
    assert hello.ask("POST", "/api/schedules", daily).status == 201
    assert hello.ask("POST", "/api/schedules/daily/backfill", body).status == 422
    assert hello.ask("GET", "/api/executions").json["executions"] == []


@pytest.mark.parametrize("change", [{"catch_up": "often"}, {"overlap": 1}, {"catch_up_max": 0}])
def test_a_conduct_that_is_none_is_refused(hello, change):
    refused = hello.ask("POST", "/api/schedules", {**HOURLY, **change})
    assert refused.status == 422 and hello.ask("GET", "/api/schedules").json["schedules"] == []
