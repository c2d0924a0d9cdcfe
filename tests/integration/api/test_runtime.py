"""Looking into ``noetl serve``, over real HTTP: analysis, templates, queues, metrics."""

from __future__ import annotations

import urllib.request

import pytest

from noetl.runtime.local.keys import local_keys
from tests.integration.api.test_serve import GATED, client, serve, server  # noqa: F401

pytestmark = pytest.mark.postgres


def test_a_running_system_can_be_looked_into(server, client):  # noqa: F811
    client.register(GATED)
    execution_id = client.start("demo/gated")
    client.until(execution_id, "waiting")
    status, found = client("POST", f"/api/executions/{execution_id}/analyze")
    assert status == 200 and found["stuck"] and found["findings"][0]["kind"] == "parked", found
    body = {"execution_id": execution_id, "template": {"n": "{{ vars.n + 1 }}", "list": "{{ [start.n] }}"}}
    status, found = client("POST", "/api/context/render", body)
    assert (status, found["rendered"]) == (200, {"n": 2, "list": [1]})
    status, found = client("GET", "/api/queue")
    assert status == 200 and found["pools"] == [] and found["events"] == 0
    assert {"events", "commands-io"} <= {one["name"] for one in found["queues"]} | {"commands-io"}


def test_prometheus_reads_what_it_needs(server, client):  # noqa: F811
    client("GET", "/api/executions")
    request = urllib.request.Request(
        f"{server.address}/metrics", headers={"Authorization": f"Bearer {client.token}"}
    )
    with urllib.request.urlopen(request) as reply:
        text = reply.read().decode()
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    values = dict(line.rsplit(" ", 1) for line in lines)
    assert float(values['noetl_http_requests_total{method="GET",status="200"}']) >= 1
    assert 'noetl_queue_messages{queue="events",state="waiting"}' in values
    assert all(float(value) >= 0 for value in values.values())
    assert text.count("# TYPE") == len(
        {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    )


FAILING = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: failing, path: demo/failing }
workflow:
  - { step: start, tool: { kind: noop, spec: { policy: { rules: [{ else: { then: { do: fail } } }] } } } }
on_failure: { kind: noop, set: { ctx.told: "{{ execution.status }}" } }
finally: { kind: noop, spec: { policy: { rules: [{ else: { then: { do: fail } } }] } } }
"""


def test_a_failed_execution_tells_and_is_counted(server, client):  # noqa: F811
    client.register(FAILING)
    execution_id = client.start("demo/failing")
    client.until(execution_id, "failed")
    _, found = client("GET", f"/api/executions/{execution_id}")
    told = [(one["step"], one["status"]) for one in found["steps"]]
    assert told == [("start", "failed"), ("on_failure", "done"), ("finally", "failed")]
    request = urllib.request.Request(
        f"{server.address}/metrics", headers={"Authorization": f"Bearer {client.token}"}
    )
    with urllib.request.urlopen(request) as reply:
        assert 'noetl_executions_ended_total{status="failed"} 1' in reply.read().decode()


def test_a_batch_is_kept_in_the_database_and_hostile_events_do_no_harm(server, client):  # noqa: F811
    client.register(GATED)
    execution_id = client.start("demo/gated")
    client.until(execution_id, "waiting")
    event = {"type": "command", "execution_id": int(execution_id), "event_id": "cmd:9:0", "program": "p", "command_id": "9",
             "attempt": 1, "turn": 0, "run": 9, "step": "gate", "outcome": {"status": "ok"}}  # fmt: skip
    forged = {"v": 1, "token": "00000000.0-0.ff", "event": event}
    worker = type(client)(server.address, server.tokens.add("worker", ["worker"]))
    assert client("POST", "/api/events", forged)[0] == 403, "admin is not worker"
    status, answer = worker("POST", "/api/events", forged)
    assert (status, answer["code"]) == (503, "key_unknown"), (
        "the key may be younger than the server's look at it"
    )
    known = local_keys(server.runtime.settings.home).current
    forged["token"] = f"{known}.0-0.ff"
    status, answer = worker("POST", "/api/events", forged)
    assert (status, answer["code"]) == (403, "forbidden")
    status, answer = worker("POST", "/api/events/batch", {"events": [forged, forged]}, Idempotency_Key="b")
    assert (status, answer["status"]) == (202, "failed")
    _, told = worker("GET", f"/api/events/batch/{answer['request_id']}/status")
    assert [one["code"] for one in told["told"]] == ["event_refused"] * 2
    assert worker("POST", "/api/events/batch", {"events": [forged, forged]}, Idempotency_Key="b")[1][
        "duplicate"
    ]
    assert client("GET", f"/api/executions/{execution_id}/status")[1]["status"] == "waiting"
    key = server.runtime.settings.home / "commands.key"
    assert key.stat().st_mode & 0o777 == 0o600
