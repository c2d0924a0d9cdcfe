"""Schedules through ``noetl serve``: moments of the past, missed ones, overlaps, and starts that were asked for a later time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from noetl.domain.automations.schedules import fires, instant
from noetl.domain.workers.lease_owners import later
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from noetl.services.automations.fire_schedule import timing_of
from tests.integration.api.test_serve import Client
from tests.waiting import wait_until

pytestmark = pytest.mark.postgres
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: tick
  path: demo/tick
  schedule: { cron: MINUTE * * * *, catch_up: all, catch_up_max: 3, overlap: OVERLAP, payload: { word: fired } }
workflow:
  - step: start
    spec:
      policy:
        admit:
          rules: [{ when: "{{ workload.word != 'held' }}", then: { allow: true } }, { else: { then: { allow: false } } }]
    tool: { kind: noop, args: { said: "{{ workload.word }}", at: "{{ workload.schedule.at | default('by hand') }}" } }
"""


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[Server]:
    settings = Settings(home=tmp_path, database_url=database)
    with Server(settings, ServeSettings(port=0, open_to_all=True), on_log=lambda line: None) as made:
        yield made


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server.address)


def register(client: Client, overlap: str = "allow", word: str = "fired") -> None:
    """Half an hour away from now in both directions: no moment comes while a test runs."""
    minute = (int(time.time()) // 60 + 30) % 60
    text = PLAYBOOK.replace("MINUTE", str(minute)).replace("OVERLAP", overlap)
    text = text.replace("word: fired", f"word: {word}")
    assert client("POST", "/api/catalog/register", {"content": text})[0] in (200, 201)


def listed(client: Client, status: str) -> list[dict[str, Any]]:
    return client("GET", f"/api/executions?status={status}")[1]["executions"]


def owe(server: Server, hours: int) -> None:
    """As if nobody had fired for so long."""
    table = server.runtime.opened.schedules
    row = table.get("demo.tick")
    first = next(fires(timing_of(row), time.time() - 3600 * hours - 1))
    table.put(replace(row, next_at=first))


def test_missed_moments_and_a_backfill_start_every_moment_once(server: Server, client: Client) -> None:
    register(client)
    owe(server, 5)
    told = wait_until(lambda: (found := listed(client, "completed")) and len(found) == 3 and found)
    row = client("GET", "/api/schedules/demo.tick")[1]
    results = {
        one["execution_id"]: client("GET", f"/api/executions/{one['execution_id']}/result")[1]["result"]
        for one in told
    }
    moments = {str(one["at"]): name for name, one in results.items() if one["said"] == "fired"}
    newest = sorted(moments)
    assert newest[-1] == row["last_at"] and len(newest) == 3
    # Its id need not be the greatest: those of one millisecond are in no order.
    assert row["last_execution_id"] == moments[newest[-1]]
    now = time.time()
    span = {"from": instant(now - 6 * 3600), "to": instant(now), "only_missed": True}
    code, planned = client("POST", "/api/schedules/demo.tick/backfill", {**span, "dry_run": True})
    assert code == 200 and {one["status"] for one in planned["moments"]} == {"pending"}
    missed = [one["at"] for one in planned["moments"]]
    assert missed and not set(missed) & set(newest), "what was fired is not missed"
    code, done = client("POST", "/api/schedules/demo.tick/backfill", span)
    assert code == 200 and [one["at"] for one in done["moments"]] == missed
    wait_until(lambda: len(listed(client, "completed")) == 3 + len(missed))
    assert client("POST", "/api/schedules/demo.tick/backfill", span)[1]["moments"] == []


@pytest.mark.parametrize(
    ("overlap", "waiting", "cancelled"), [("skip", 1, 0), ("cancel_previous", 1, 2), ("allow", 3, 0)]
)
def test_starts_that_meet_the_one_before(
    server: Server, client: Client, overlap: str, waiting: int, cancelled: int
) -> None:
    register(client, overlap, "held")
    owe(server, 3)
    wait_until(
        lambda: (client("GET", "/api/schedules/demo.tick")[1]["last_at"] or "") >= instant(time.time() - 3600)
    )
    wait_until(
        lambda: (len(listed(client, "waiting")), len(listed(client, "cancelled"))) == (waiting, cancelled)
    )
    error = client("GET", "/api/schedules/demo.tick")[1]["last_error"]
    assert ("still runs" in (error or "")) is (overlap == "skip")


def come(database: str, execution_id: str) -> None:
    """Let the time of a start have come."""
    with psycopg.connect(database) as connection:
        connection.execute(
            "UPDATE noetl.outbox SET owner = %s WHERE execution_id = %s",
            (later(time.time() - 1), execution_id),
        )
        connection.execute(
            "UPDATE noetl.execution SET started_at = now() WHERE execution_id = %s", (execution_id,)
        )


def test_a_start_for_later_waits_runs_or_is_cancelled(server: Server, client: Client, database: str) -> None:
    register(client)
    at = instant(time.time() + 3600)
    code, soon = client(
        "POST", "/api/execute", {"path": "demo/tick", "payload": {"word": "x"}, "trigger_at": at}
    )
    assert (code, soon["status"], soon["trigger_at"]) == (201, "scheduled", at)
    far = client("POST", "/api/execute", {"path": "demo/tick", "trigger_at": instant(time.time() + 86_400)})[
        1
    ]
    assert {one["execution_id"] for one in listed(client, "scheduled")} == {
        soon["execution_id"],
        far["execution_id"],
    }
    assert client("POST", f"/api/executions/{far['execution_id']}/cancel", {})[0] == 202
    wait_until(lambda: [one["execution_id"] for one in listed(client, "cancelled")] == [far["execution_id"]])
    assert listed(client, "completed") == []
    come(database, soon["execution_id"])
    wait_until(lambda: [one["execution_id"] for one in listed(client, "completed")] == [soon["execution_id"]])
