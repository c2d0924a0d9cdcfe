"""Limits on the deployed system: executions that share a key, and two of them at a time."""

from __future__ import annotations

import threading
from typing import Any

from tests.e2e.remote import Remote
from tests.integration.examples.api import Api, ApiServer
from tests.waiting import PATIENCE, wait_until

SHARED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: shared, path: e2e/shared }
executor: { spec: { concurrency: { limit: 2 } } }
workflow:
  - step: start
    spec: { limits: [{ key: e2e, concurrent: 1 }] }
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }
    tool: { kind: http, url: "{{ workload.url }}" }
    next: { arcs: [{ step: rated }] }
  - step: rated
    spec: { limits: [{ key: e2e-rate, rate: 2 }] }
    tool: { kind: noop, args: { done: true } }
"""


def test_executions_share_slots_and_moments(remote: Remote, deployment: Any) -> None:
    api = deployment.api
    assert api("PUT", "/api/limits/e2e", {"concurrent": 1}).body["source"] == "operator"
    released, outside = threading.Event(), Api()
    # The lock of the scripted API is not held while a request waits.
    outside.lock = threading.Semaphore(8)  # type: ignore[assignment]
    outside.on("/item", lambda request: (200 if released.wait(PATIENCE) else 500, {}))
    with ApiServer(outside):
        share(remote, api, f"{outside.base}/item", released)
    for one in api("GET", "/api/limits").body["limits"]:
        assert (one["in_use"], one["waiting"]) == (0, 0), one


def share(remote: Remote, api: Any, url: str, released: threading.Event) -> None:
    """Three executions wait for each other until the item that has the slot is answered."""
    started = [remote.begin(SHARED, url=url) for _ in range(3)]

    def waiting() -> bool:
        now = [api("GET", f"/api/executions/{one}").body for one in started]
        reasons = [wait["reason"] for one in now for wait in one["waits"]]
        queued = any(one["status"] == "queued" for one in now)
        return queued and any("waits for key 'e2e': 1 of 1 in use" in reason for reason in reasons)

    wait_until(waiting, "one that is queued, and others that wait for a slot")
    released.set()
    for one in started:
        run = remote.follow(one)
        assert (run.status, run.result) == ("completed", {"done": True}), run.error
