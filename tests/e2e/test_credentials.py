"""Credentials of the deployed system: kept over its API, read by its workers with the tokens of their commands."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psycopg
import pytest
from psycopg import conninfo

from tests.integration.api.canaries import rows
from tests.waiting import wait_until

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: registered, path: e2e/registered }
keychain:
  - { name: shop, kind: bearer, credential: "shop_{{ workload.stage }}" }
  - { name: other, kind: secret_manager, credential: vaulted }
workload: { stage: "MARK" }
workflow:
  - step: start
    tool:
      - query: { kind: postgres, auth: db_MARK, query: "select 40 + {{ workload.n | default(2) }} as n" }
      - call: { kind: http, url: "URL/call", headers: { X-Shop: "{{ keychain.shop.token }}", X-Other: "{{ keychain.other.key }}" } }
    set: { ctx.said: "{{ call.data }}" }
    next: { arcs: [{ step: each }] }
  - step: each
    loop: { in: [1, 2, 3, 4], iterator: n, spec: { mode: parallel } }
    tool: { kind: http, url: "URL/item?n={{ iter.n }}", auth: "shop_MARK" }
    next: { arcs: [{ step: refused }] }
  - step: refused
    tool:
      - page: { kind: http, url: "URL/refused", auth: shop_MARK, spec: { policy: { rules: [{ else: { then: { do: continue } } }] } } }
      - cut:
          kind: http
          url: "URL/call"
          params: { at: "{{ keychain.shop.token | epoch }}" }
          spec: { policy: { rules: [{ else: { then: { do: continue, set_ctx: { why: "{{ outcome.error.message }}" } } } }] } }
      - sql:
          kind: postgres
          auth: db_MARK
          query: "select {{ keychain.shop.token }}::text::int"
          spec: { policy: { rules: [{ else: { then: { do: continue } } }] } }
      - large: { kind: postgres, auth: db_MARK, query: "select repeat({{ keychain.shop.token }}::text, 3000) as large" }
    next: { arcs: [{ step: gate }] }
  - step: gate
    spec:
      policy:
        admit: { rules: [{ when: "{{ ctx.approved | default(false) }}", then: { allow: true } }, { else: { then: { allow: false } } }] }
    tool: { kind: noop, args: { total: "{{ ctx.total }}" } }
    next: { arcs: [{ step: ask }] }
  - step: ask
    tool:
      - send: { kind: http, url: "URL/ask", headers: { X-Answer-At: "{{ callback.url }}" } }
      - answer: { kind: wait, callback: true }
    next: { arcs: [{ step: end }] }
  - { step: end, tool: { kind: noop, args: { total: "{{ gate.total }}", agreed: "{{ ask.answer.agreed }}" } } }
"""


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    heard: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
            body = json.dumps({"said": dict(self.headers)}).encode()
            self.send_response(401 if self.path == "/refused" else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}", heard
    made.shutdown()
    thread.join()
    made.server_close()


def keep(deployment: Any, name: str, type_: str, **data: Any) -> None:
    answer = deployment.api("POST", "/api/credentials", {"name": name, "type": type_, "data": data})
    assert answer.status == 201, answer


def test_workers_read_registered_credentials_with_their_commands_tokens(deployment, remote, server):
    url, heard = server
    mark = secrets.token_hex(4)
    token, password, vaulted = f"canary-{secrets.token_hex(8)}", "", f"canary-{secrets.token_hex(8)}"
    scratch = json.loads(
        deployment.client("secretsmanager").get_secret_value(
            SecretId=f"noetl/{deployment.environment}/credentials/workspace"
        )["SecretString"]
    )["data"]
    given = conninfo.conninfo_to_dict(conninfo.make_conninfo(**scratch))
    password = str(given["password"])
    deployment.client("secretsmanager").create_secret(
        Name=f"noetl/{deployment.environment}/credentials/vaulted_{mark}",
        SecretString=json.dumps({"type": "generic", "data": {"key": vaulted}}),
    )
    text = PLAYBOOK.replace("URL", url).replace("MARK", mark).replace("vaulted", f"vaulted_{mark}")
    remote.register(text)

    refused = deployment.api("POST", "/api/executions", {"path": "e2e/registered"})
    assert (refused.status, refused.body["code"]) == (422, "keychain_unresolved"), refused
    assert f"'shop_{mark}'" in refused.body["detail"]

    keep(deployment, f"shop_{mark}", "bearer", token=token)
    keep(deployment, f"db_{mark}", "postgres", **scratch)
    began = time.time()
    execution_id = remote.start(path="e2e/registered")
    here = f"/api/executions/{execution_id}"
    wait_until(
        lambda: deployment.api("GET", f"{here}/status").body["status"] in ("waiting", "failed"),
        "the gate",
    )
    _change_and_approve(deployment, here)
    (asking,) = wait_until(lambda: [one["x-answer-at"] for one in heard if one["path"] == "/ask"], "a link")
    link = asking.rpartition("/")[2]
    wait_until(
        lambda: deployment.api("POST", f"/api/callbacks/{link}", {"agreed": True}).status == 202, "202"
    )
    wait_until(lambda: deployment.api("GET", f"{here}/status").body["ended"], "the end")
    assert deployment.api("POST", f"/api/callbacks/{link}", {"agreed": False}).status == 409, "once"
    run = remote.follow(execution_id)
    assert (run.status, run.result) == ("completed", {"total": 2, "agreed": True}), run.error
    (call,) = [one for one in heard if one["path"] == "/call"]
    assert (call["x-shop"], call["x-other"]) == (token, vaulted)
    items = [one for one in heard if one["path"].startswith("/item")]
    assert len(items) == 4 and {one["authorization"] for one in items} == {f"Bearer {token}"}

    asked = [
        line for line in deployment.logs("api", began - 5) if f"/api/keychain/{run.execution_id}/" in line
    ]
    assert 2 <= len(asked) <= 10, "each worker process once for each name, from the cache afterwards"
    told = deployment.api("GET", f"/api/access/credentials?execution_id={run.execution_id}").body["accesses"]
    assert {(one["name"], one["action"]) for one in told} == {
        (f"shop_{mark}", "read"),
        (f"db_{mark}", "read"),
    }
    assert {one["step"] for one in told} <= {"start", "each", "refused"} and all(
        one["principal"] for one in told
    )
    with psycopg.connect(deployment.database()) as connection:
        sealed = connection.execute(
            "SELECT data_encrypted FROM noetl.credential WHERE name = %s", [f"shop_{mark}"]
        ).fetchone()
        assert sealed is not None and sealed[0][:1] == b"\x01" and token.encode() not in sealed[0], "by KMS"
        left = connection.execute(
            "SELECT count(*) FROM noetl.auth_cache WHERE execution_id = %s", [int(run.execution_id)]
        ).fetchone()
        assert left == (0,), "gone with the execution"
    marks = [token.encode(), vaulted.encode(), password.encode(), b"canary-"]
    marks += [link.encode(), link.rpartition("-")[2].encode()]
    said = dict(_everywhere(deployment, began))
    assert sum(place.startswith("s3 ") for place in said) > 0 and sum("log " in place for place in said) > 4
    assert [(place, text[:300]) for place, text in said.items() if any(mark in text for mark in marks)] == []


def _change_and_approve(deployment: Any, here: str) -> None:
    """A patch that fits, one that does not, and what history and analysis say of them."""
    why = {"reason": "checked", "correlation_id": "ticket-9"}
    stale = [{"op": "test", "path": "/total", "value": 7}, {"op": "add", "path": "/approved", "value": True}]
    fits = [{"op": "test", "path": "/total", "value": 1}, {"op": "replace", "path": "/total", "value": 2}]
    for patch in ({"total": 1}, stale, fits):
        assert deployment.api("PATCH", f"{here}/ctx", {"patch": patch, **why}).status == 202
    changes = wait_until(
        lambda: (found := deployment.api("POST", f"{here}/analyze", {}).body["changes"])[2:] and found,
        "changes",
    )
    assert sorted(one["name"] for one in changes) == ["command.superseded", "ctx.patched", "ctx.patched"]
    assert all(
        (one["correlation_id"], one["reason"]) == ("ticket-9", "checked") and one["principal"]
        for one in changes
    )
    assert deployment.api("GET", f"{here}/status").body["status"] == "waiting", "nothing of what did not fit"
    assert deployment.api("PATCH", f"{here}/ctx", {"patch": {"approved": True}, **why}).status == 202


def _everywhere(deployment: Any, began: float) -> Iterator[tuple[str, bytes]]:
    """Every row, object, message and line of the deployment."""
    for number, (table, row) in enumerate(rows(deployment.database())):
        yield f"row {number} of {table}", row
    s3 = deployment.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        for found in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ()):
            if found["LastModified"].timestamp() >= began - 5:
                name = found["Key"]
                yield (
                    f"s3 {name}",
                    name.encode() + s3.get_object(Bucket=bucket["Name"], Key=name)["Body"].read(),
                )
    sqs = deployment.client("sqs")
    for url in sqs.list_queues().get("QueueUrls", ()):
        if url.endswith(("-dlq", "-dlq.fifo")):
            # These queues say twenty seconds, which a reader of an empty one would wait for.
            answer = sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0, WaitTimeSeconds=0
            )
            yield f"queue {url}", json.dumps(answer.get("Messages", []), default=str).encode()
    for function in deployment.client("lambda").list_functions()["Functions"]:
        name = function["FunctionName"].removeprefix(f"noetl-{deployment.environment}-")
        if name != function["FunctionName"]:
            yield f"log {name}", "\n".join(deployment.logs(name, began - 5)).encode()


def test_reads_after_the_first_ask_kms_nothing(deployment):
    mark = secrets.token_hex(4)
    keep(deployment, f"often_{mark}", "generic", key=f"canary-{mark}")
    began = time.time()
    path = f"/api/credentials/often_{mark}?include_data=true"
    for number in range(6):
        assert deployment.api("GET", f"{path}&execution_id={10**17 + number}").body["data"] == {
            "key": f"canary-{mark}"
        }
    lines = [line for line in deployment.logs("api", began - 1) if f"often_{mark}" in line and "{" in line]
    calls = [json.loads(line[line.index("{") :]).get("KmsCalls", 0) for line in lines]
    assert len(calls) >= 6 and sum(bool(count) for count in calls) <= 1, calls
    assert deployment.api("DELETE", f"/api/credentials/often_{mark}").status == 200


def test_nobody_is_given_a_credential_for_a_made_up_command(deployment):
    header = "eyJleGVjdXRpb25faWQiOjEsImNvbW1hbmRfaWQiOiIxIiwicnVuIjoxLCJzdGVwIjoicyIsInByb2dyYW0iOiJwIiwidG9rZW4iOiJ4LjAtMC55In0"
    refused = deployment.api("GET", "/api/keychain/1/workspace", headers={"Noetl-Command": header})
    assert (refused.status, refused.body["code"]) == (403, "command_refused")
