"""Pause, resume and redrive through ``noetl serve``: over real HTTP, with the engine and the database behind it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.integration.api.test_serve import GATED, Client, client, serve, server  # noqa: F401

pytestmark = pytest.mark.postgres

BROKEN = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: broken, path: demo/broken }
workflow:
  - { step: start, tool: { kind: noop, args: { n: 1 } }, next: { arcs: [{ step: divide, args: { n: "{{ start.n }}" } }] } }
  - { step: divide, tool: { kind: noop, args: { n: "{{ args.n / 0 }}" } } }
"""
MENDED = BROKEN.replace("args.n / 0", "args.n + 1")


def until(ask: Client, execution_id: str, *statuses: str) -> dict[str, Any]:
    deadline = time.monotonic() + 20
    while True:
        _, status = ask("GET", f"/api/executions/{execution_id}/status")
        if status["status"] in statuses:
            return status
        assert time.monotonic() < deadline, status
        time.sleep(0.05)


def test_a_paused_execution_takes_changes_and_enters_nothing_until_it_is_resumed(client: Client) -> None:  # noqa: F811
    client.register(GATED)
    execution_id = client.start("demo/gated")
    until(client, execution_id, "waiting")
    place = f"/api/executions/{execution_id}"
    assert client("POST", f"{place}/pause", {"reason": "a look"})[0] == 202
    until(client, execution_id, "paused")
    assert client("PATCH", f"{place}/ctx", {"patch": {"approved": True}})[0] == 202
    time.sleep(0.3)
    assert until(client, execution_id, "paused")
    assert client("POST", f"{place}/resume", {})[0] == 202
    until(client, execution_id, "completed")
    assert client("POST", f"{place}/resume", {})[0] == 409
    names = [event["event_type"] for event in client("GET", f"{place}/events")[1]["events"]]
    during = names[names.index("execution.paused") : names.index("execution.resumed")]
    assert during == ["execution.paused", "ctx.patched"]


def test_an_execution_that_failed_goes_on_with_a_newer_version(client: Client) -> None:  # noqa: F811
    client.register(BROKEN)
    execution_id = client.start("demo/broken")
    until(client, execution_id, "failed")
    client.register(MENDED)
    place = f"/api/executions/{execution_id}"
    status, refused = client("POST", f"{place}/redrive", {"from": "divde"})
    assert (status, refused["code"]) == (422, "unknown_step") and "divide" in refused["hint"]
    assert client("POST", f"{place}/redrive", {"version": 2, "reason": "mended"})[0] == 202
    until(client, execution_id, "completed")
    assert client("GET", f"{place}/result")[1]["result"] == {"n": 2}
    names = [event["event_type"] for event in client("GET", f"{place}/events")[1]["events"]]
    assert names.count("playbook.failed") == names.count("execution.redriven") == 1
    assert names[-1] == "playbook.completed"
    status, refused = client("POST", f"{place}/redrive", {})
    assert (status, refused["code"]) == (409, "not_redrivable")
