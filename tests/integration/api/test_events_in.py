"""Events that come in at ``noetl serve``: hostile ones do no harm, accepted ones survive their server, and too many wait outside."""

from __future__ import annotations

import gzip
import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from noetl.domain.messages import decode_message, encode_message
from noetl.domain.results.references import INLINE_LIMIT
from noetl.runtime.server.serve import Server
from tests.forked import Forked
from tests.integration.api.test_serve import Client, Serve, serve  # noqa: F401
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres

WORK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: outside, path: demo/outside }
workflow:
  - { step: start, tool: { kind: python, code: "def main():\\n    return 1" }, next: two }
  - { step: two, tool: { kind: python, code: "def main():\\n    return 2" } }
"""
TOO_DEEP = b"[" * 100_000 + b"]" * 100_000
JSON = {"Content-Type": "application/json"}


def send(client: Client, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any, Any]:
    sent = {"Authorization": f"Bearer {client.token}", **JSON, **headers}
    request = urllib.request.Request(client.address + path, body, sent, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return reply.status, json.loads(reply.read()), reply.headers
    except HTTPError as refused:
        return refused.code, json.loads(refused.read()), refused.headers


def taken(client: Client, execution_id: str, command_id: str = "1") -> dict[str, Any]:
    """This command, claimed by hand."""
    worker = {"name": "hand", "pool": "python", "capacity": 1000}
    assert client("POST", "/api/worker/pool/register", worker)[0] == 200

    def claimed() -> Any:
        status, found = client("POST", f"/api/commands/{execution_id}:{command_id}/claim", {"name": "hand"})
        assert status in (200, 404, 409), found
        return found["command"] if status == 200 else None

    command: dict[str, Any] = wait_until(claimed, f"command {command_id}")
    return command


@pytest.fixture
def server(serve: Serve) -> Iterator[Server]:  # noqa: F811
    with serve(external=("python",)) as made:
        yield made


@pytest.fixture
def client(server: Server) -> Client:
    assert server.tokens is not None
    made = Client(server.address, server.tokens.add("tester", ["admin", "worker"]))
    made.register(WORK)
    return made


def hostile(
    command: dict[str, Any], other: dict[str, Any]
) -> dict[str, tuple[bytes, dict[str, str], int, str]]:
    """What → (body, headers, status, code)."""
    shown, strange = command["command"], other["command"]
    good = {"name": "call.done", "payload": {"result": 1}, "command": shown}
    event = {
        "type": "command.done", "execution_id": int(command["execution_id"]), "event_id": "cmd:1:0", "program": "p",
        "command_id": "1", "attempt": 1, "turn": 0, "run": 1, "step": "start", "outcome": {"status": "ok", "result": 666},
    }  # fmt: skip
    foreign = decode_message(other["message"]).token

    def encoded(**changes: Any) -> bytes:
        return json.dumps({**good, **changes}).encode()

    def with_payload(text: bytes) -> bytes:
        return json.dumps({**good, "payload": 0}).encode().replace(b'"payload": 0', b'"payload": ' + text)

    def message(token: str, **changes: Any) -> bytes:
        return json.dumps({"v": 1, "token": token, "event": {**event, **changes}}).encode()

    return {
        "too large a result": (encoded(payload={"result": "x" * (INLINE_LIMIT + 1)}), {}, 422, "event_invalid"),
        "too large a body": (encoded(payload={"x": "x" * 5_242_900}), {}, 413, "body_too_large"),
        "another execution": (encoded(execution_id=other["execution_id"]), {}, 422, "event_invalid"),
        "a huge execution": (encoded(execution_id=10**30), {}, 422, "event_invalid"),
        "a made-up capability": (encoded(command="eyJhIjoxfQ"), {}, 422, "capability_invalid"),
        "a capability that was changed": (encoded(command=shown[:-6] + strange[-6:]), {}, 403, "forbidden"),
        "another command's token": (message(foreign), {}, 403, "forbidden"),
        "no token": (message(""), {}, 403, "forbidden"),
        "an event of the engine": (
            json.dumps({"v": 1, "token": foreign, "event": {
                "type": "cancel", "execution_id": int(command["execution_id"]), "event_id": "x", "program": "p"}}).encode(),
            {}, 403, "forbidden",
        ),
        "an unknown event": (message(foreign, type="boom"), {}, 403, "forbidden"),
        "an unknown name": (encoded(name="call.maybe"), {}, 422, "event_invalid"),
        "no name": (encoded(name=""), {}, 422, "body_invalid"),
        "too deep": (TOO_DEEP, {}, 422, "body_invalid"),
        "too deep inside": (with_payload(b'{"result": ' + TOO_DEEP + b"}"), {}, 400, "body_not_json"),
        "NaN": (with_payload(b'{"result": NaN}'), {}, 400, "body_not_json"),
        "endless": (with_payload(b'{"result": 1e999}'), {}, 422, "body_invalid"),
        "a key twice": (encoded()[:-1] + b', "name": "call.error"}', {}, 400, "duplicate_key"),
        "a key twice inside": (with_payload(b'{"result": {"a": 1, "a": 2}}'), {}, 400, "duplicate_key"),
        "no JSON": (b"name=call.done", {}, 400, "body_not_json"),
        "no UTF-8": (b'{"name": "\xff"}', {}, 400, "body_not_json"),
        "XML": (encoded(), {"Content-Type": "application/xml"}, 415, "unsupported_media_type"),
        "compressed": (gzip.compress(encoded()), {"Content-Encoding": "gzip"}, 415, "content_encoding_unsupported"),
        "packed twice": (encoded(), {"Content-Encoding": "br, gzip"}, 415, "content_encoding_unsupported"),
    }  # fmt: skip


def test_hostile_events_are_refused_counted_and_harmless(server, client):
    execution_id, other = client.start("demo/outside"), client.start("demo/outside")
    command, strange = taken(client, execution_id), taken(client, other)
    cases = hostile(command, strange)
    for what, (body, headers, status, code) in cases.items():
        for path in ("/api/events", "/v1/events", "/api/events/batch"):
            asked = b'{"events": [' + body + b"]}" if path.endswith("batch") else body
            if headers.get("Content-Encoding") == "gzip" and path.endswith("batch"):
                asked = gzip.compress(asked)
            found, answer, _ = send(client, path, asked, headers)
            if path.endswith("batch") and status == 403:
                assert found == 202, (what, answer)
                place = f"/api/events/batch/{answer['request_id']}/status"
                told = client("GET", place)[1]
                assert (told["status"], told["taken"], told["refused"]) == ("failed", 0, 1), (what, told)
            else:
                assert (found, answer["code"]) == (status, code), (what, path, answer)
    with urllib.request.urlopen(
        urllib.request.Request(
            f"{client.address}/metrics", headers={"Authorization": f"Bearer {client.token}"}
        )
    ) as page:
        lines = [line for line in page.read().decode().splitlines() if "events_refused_total{" in line]
    assert sum(float(line.split()[-1]) for line in lines) == 3 * len(cases), lines

    # Nobody was harmed: both executions go on as if nothing had been said, and a huge number is as good a result as any.
    for one, first, result in ((execution_id, command, 10**30), (other, strange, 7)):
        for _ in range(2):
            told = {"name": "call.done", "payload": {"result": 1}, "command": first["command"]}
            assert client("POST", "/api/events", told)[0] == 202, "once more is no error"
        second = taken(client, one, "2")
        told = {"name": "call.done", "payload": {"result": result}, "command": second["command"]}
        assert client("POST", "/api/events", told)[0] == 202
        client.until(one, "completed")
        assert client("GET", f"/api/executions/{one}/result")[1]["result"] == result
        assert encode_message(decode_message(first["message"])) == first["message"]


def test_what_was_accepted_by_a_server_that_is_killed_is_handled_by_the_next(database, tmp_path: Path):
    """Between accepting a batch and handling it, the process dies; its client hears nothing, and nothing is lost."""
    environ = {**os.environ, "NOETL_DATABASE_URL": database, "NOETL_HOME": str(tmp_path / "home")}
    words = ("serve", "--port", "0", "--external", "python", "--json")

    def begin(module: str) -> tuple[Forked, Client]:
        process = Forked(module, argv=words, env=environ, errors=tmp_path / "stderr")
        address = json.loads(process.stdout.readline())["address"]
        return process, Client(address, (tmp_path / "home" / "token").read_text().strip())

    first, client = begin("tests.integration.api.dying_server")
    try:
        client.register(WORK)
        execution_id = client.start("demo/outside")
        command = taken(client, execution_id)
        batch = {"events": [{"name": "call.done", "payload": {"result": 1}, "command": command["command"]}]}
        with pytest.raises(OSError):
            client("POST", "/api/events/batch", batch, Idempotency_Key="once")
        assert first.wait(PATIENCE) == -signal.SIGKILL
    finally:
        first.kill()
    second, client = begin("noetl.cli.main")
    try:
        taken(client, execution_id, "2")
        again = client("POST", "/api/events/batch", batch, Idempotency_Key="once")
        assert again[0] == 202 and again[1]["duplicate"], again
        # The second command exists before the batch is told to be over.
        place = f"/api/events/batch/{again[1]['request_id']}/status"
        wait_until(lambda: client("GET", place)[1]["status"] == "completed", "the end of the batch")
    finally:
        second.terminate()
        second.wait(PATIENCE)


def test_when_too_much_waits_starts_are_told_to_come_back_and_reports_still_count(serve: Serve):  # noqa: F811
    with serve(external=("python",)) as server:
        assert server.tokens is not None
        client = Client(server.address, server.tokens.add("tester", ["admin", "worker"]))
        client.register(WORK)
        first = client.start("demo/outside")
        command = taken(client, first)
        deps = server.pressure
        deps.limit, deps._until = 0, float("-inf")
        for _ in range(2):
            status, answer, headers = send(client, "/api/executions", b'{"path": "demo/outside"}', {})
            assert (status, answer["code"], answer["retryable"]) == (429, "backlog_full", True), answer
            assert headers["Retry-After"] == "5" and answer["details"]["waiting"] == "commands"
        told = {"name": "call.done", "payload": {"result": 1}, "command": command["command"]}
        assert client("POST", "/api/events", told)[0] == 202
        deps.limit = 1000
        client.start("demo/outside")
        taken(client, first, "2")


def test_every_metric_is_in_the_docs(server, client):
    import re

    asked = urllib.request.Request(
        f"{client.address}/metrics", headers={"Authorization": f"Bearer {client.token}"}
    )
    with urllib.request.urlopen(asked) as page:
        told = set(re.findall(r"^# TYPE noetl_(\w+)", page.read().decode(), re.MULTILINE))
    text = (Path(__file__).parents[3] / "docs" / "workers.md").read_text("utf-8")
    table = text.partition("## Numbers")[2]
    assert told == set(re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE))
