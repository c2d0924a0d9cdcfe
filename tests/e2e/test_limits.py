"""Limits on the deployed system: executions that share a key, and two of them at a time."""

from __future__ import annotations

from typing import Any

from tests.e2e.remote import Remote

SHARED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: shared, path: e2e/shared }
executor: { spec: { concurrency: { limit: 2 } } }
workflow:
  - step: start
    spec: { limits: [{ key: e2e, concurrent: 1 }] }
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }
    tool: { kind: python, args: { n: "{{ iter.n }}" }, code: "import time; time.sleep(0.5); result = n" }
    next: { arcs: [{ step: rated }] }
  - step: rated
    spec: { limits: [{ key: e2e-rate, rate: 2 }] }
    tool: { kind: noop, args: { done: true } }
"""


def test_executions_share_slots_and_moments(remote: Remote, deployment: Any) -> None:
    api = deployment.api
    assert api("PUT", "/api/limits/e2e", {"concurrent": 1}).body["source"] == "operator"
    started = [remote.begin(SHARED) for _ in range(3)]

    def waiting() -> bool:
        now = [api("GET", f"/api/executions/{one}").body for one in started]
        reasons = [wait["reason"] for one in now for wait in one["waits"]]
        queued = any(one["status"] == "queued" for one in now)
        return queued and any("waits for key 'e2e': 1 of 1 in use" in reason for reason in reasons)

    deployment.wait(waiting, 60, "one that is queued, and others that wait for a slot")
    for one in started:
        run = remote.follow(one)
        assert (run.status, run.result) == ("completed", {"done": True}), run.error
    for one in api("GET", "/api/limits").body["limits"]:
        assert (one["in_use"], one["waiting"]) == (0, 0), one
