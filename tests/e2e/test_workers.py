"""Workers outside of the deployment: they take a pool's commands over HTTP while they live, and events come in by the tokens of commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.domain.messages import decode_message
from tests.waiting import PATIENCE, wait_until

WORK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: outside, path: e2e/outside }
workload: { n: 20 }
workflow:
  - step: start
    tool: { kind: python, code: "def main(n):\\n    return {'n': n + 1}", args: { n: "{{ workload.n }}" } }
    next: double
  - step: double
    tool: { kind: python, code: "def main(n):\\n    return {'n': n * 2}", args: { n: "{{ start.n }}" } }
"""
POOL = "python"


@pytest.fixture
def workers(deployment: Any, tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts `noetl worker start` processes for the pool."""
    home = str(tmp_path / "home")
    noetl = [sys.executable, "-m", "noetl.cli"]
    added = ["context", "add", "deployed", "--url", deployment.url, "--home", home]
    subprocess.run([*noetl, *added], check=True, capture_output=True)
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        asked = [
            "worker",
            "start",
            "--context",
            "deployed",
            "--pool",
            POOL,
            "--capacity",
            "2",
            "--home",
            home,
        ]
        process = subprocess.Popen(
            [*noetl, *asked], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def alive(deployment: Any) -> list[str]:
    found = deployment.api("GET", "/api/worker/pools").body["workers"]
    return [one["name"] for one in found if one["alive"] and one["pool"] == POOL]


def claimed(deployment: Any, remote: Any, name: str) -> tuple[str, dict[str, Any]]:
    """The first command of a new execution; one that began before the engine knew of the worker went to its queue."""

    def attempt() -> Any:
        execution_id = remote.begin(WORK)
        place = f"/api/commands/{execution_id}:1/claim"
        found: list[Any] = []

        def ask() -> bool:
            answer = deployment.api("POST", place, {"name": name})
            if answer.status == 200:
                found.append(answer.body["command"])
            return answer.status == 200 or answer.status == 410 or answer.body["code"] == "command_leased"

        wait_until(ask, what="a command that is offered")
        return (execution_id, found[0]) if found else None

    return wait_until(attempt, "a command that is offered to workers")


def test_events_come_in_by_the_tokens_of_commands(deployment, remote):
    name = f"hand-{uuid.uuid4().hex[:8]}"
    body = {"name": name, "pool": POOL, "capacity": 50}
    assert deployment.api("POST", "/api/worker/pool/register", body).status == 200
    try:
        execution_id, command = claimed(deployment, remote, name)
        again = deployment.api("POST", f"/api/commands/{execution_id}:1/claim", {"name": name})
        assert (again.status, again.body["code"]) == (409, "command_leased")
        assert 1 <= int(again.headers["retry-after"]) <= 61
        told = {"name": "call.done", "payload": {"result": {"n": 21}}, "command": command["command"]}

        message = decode_message(command["message"])
        assert message.command is not None
        forged = {"v": 1, "token": message.token[:-2] + "xx", "event": json.loads(json.dumps({
            "type": "command.done", "execution_id": int(execution_id), "event_id": "cmd:1:0",
            "program": message.command.program, "command_id": "1", "attempt": 1, "turn": 0, "run": 1,
            "step": "start", "outcome": {"status": "ok", "result": {"n": 666}}}))}  # fmt: skip
        refused = deployment.api("POST", "/api/events", forged)
        assert (refused.status, refused.body["code"]) == (403, "forbidden"), refused
        header = {"Noetl-Command": command["command"]}
        sign = deployment.api("POST", "/v1/events", {"event_type": "command.heartbeat"}, header)
        assert sign.status == 202, sign

        for _ in range(2):
            assert deployment.api("POST", "/api/events", told).status == 202
        second = f"/api/commands/{execution_id}:2/claim"

        def offered() -> Any:
            answer = deployment.api("POST", second, {"name": name})
            return answer.body["command"] if answer.status == 200 else None

        then = wait_until(offered, "the second command")
        done = {"name": "call.done", "payload": {"result": {"n": 42}}, "command": then["command"]}
        batch = {"events": [{"name": "command.started", "command": then["command"]}, done, done]}
        key = {"Idempotency-Key": uuid.uuid4().hex}
        first, repeat = (deployment.api("POST", "/api/events/batch", batch, key) for _ in range(2))
        assert (first.status, repeat.status, repeat.body["duplicate"]) == (202, 202, True), (first, repeat)
        assert first.body["request_id"] == repeat.body["request_id"]
        place = first.headers["location"]
        wait_until(
            lambda: deployment.api("GET", place).body["status"] == "completed", what="the end of the batch"
        )
        run = remote.follow(execution_id)
        assert (run.status, run.result) == ("completed", {"n": 42}), run.error
        names = [event.event_type for event in run.events]
        assert names.count("call.done") == 2, "each outcome counts once"
        gone = deployment.api("POST", f"/api/commands/{execution_id}:1/claim", {"name": name})
        assert (gone.status, gone.body["code"]) == (410, "command_done")
    finally:
        deployment.api("POST", "/api/worker/pool/deregister", {"name": name})


def test_a_worker_outside_serves_a_pool_and_another_goes_on_when_it_is_killed(deployment, remote, workers):
    hand = f"silent-{uuid.uuid4().hex[:8]}"
    body = {"name": hand, "pool": POOL, "capacity": 1}
    assert deployment.api("POST", "/api/worker/pool/register", body).status == 200
    execution_id, command = claimed(deployment, remote, hand)
    first = workers()
    wait_until(lambda: len(alive(deployment)) == 2, what="the worker's registration")
    # Whoever had the command is gone; the worker that lives has it next.
    assert deployment.api("POST", "/api/worker/pool/deregister", {"name": hand}).status == 200
    run = remote.follow(execution_id)
    assert (run.status, run.result) == ("completed", {"n": 42}), run.error
    late = {"name": "call.done", "payload": {"result": {"n": 0}}, "command": command["command"]}
    assert deployment.api("POST", "/api/events", late).status == 202, "it is heard, and counts for nothing"

    known = set(alive(deployment))
    os.kill(first.pid, signal.SIGKILL)
    second = workers()
    wait_until(lambda: set(alive(deployment)) - known, what="the second worker's registration")
    run = remote.follow(remote.begin(WORK))
    assert (run.status, run.result) == ("completed", {"n": 42}), run.error
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE) == 0
    said = deployment.api("GET", f"/api/executions/{execution_id}/result").body
    assert said["result"] == {"n": 42}
