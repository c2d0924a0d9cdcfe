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

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: registered, path: e2e/registered }
keychain:
  - { name: shop, kind: bearer, credential: "shop_{{ workload.stage }}" }
  - { name: other, kind: secret_manager, credential: vaulted }
workload: { stage: MARK }
workflow:
  - step: start
    tool:
      - query: { kind: postgres, auth: db_MARK, query: "select 40 + {{ workload.n | default(2) }} as n" }
      - call: { kind: http, url: "URL/call", headers: { X-Shop: "{{ keychain.shop.token }}", X-Other: "{{ keychain.other.key }}" } }
    next: { arcs: [{ step: each }] }
  - step: each
    loop: { in: [1, 2, 3, 4], iterator: n, spec: { mode: parallel } }
    tool: { kind: http, url: "URL/item?n={{ iter.n }}", auth: "shop_MARK" }
"""


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    heard: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
            body = json.dumps({"said": dict(self.headers)}).encode()
            self.send_response(200)
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
    run = remote.follow(remote.start(path="e2e/registered"))
    assert run.status == "completed", run.error
    (call,) = [one for one in heard if one["path"] == "/call"]
    assert (call["x-shop"], call["x-other"]) == (token, vaulted)
    items = [one for one in heard if one["path"].startswith("/item")]
    assert len(items) == 4 and {one["authorization"] for one in items} == {f"Bearer {token}"}

    asked = [
        line for line in deployment.logs("api", began - 5) if f"/api/keychain/{run.execution_id}/" in line
    ]
    assert 2 <= len(asked) <= 8, "each worker process once for each name, from the cache afterwards"
    with psycopg.connect(deployment.database()) as connection:
        sealed = connection.execute(
            "SELECT data_encrypted FROM noetl.credential WHERE name = %s", [f"shop_{mark}"]
        ).fetchone()
        assert sealed is not None and sealed[0][:1] == b"\x01" and token.encode() not in sealed[0], "by KMS"
        left = connection.execute(
            "SELECT count(*) FROM noetl.auth_cache WHERE execution_id = %s", [int(run.execution_id)]
        ).fetchone()
        assert left == (0,), "gone with the execution"
        for table in ("event", "slot", "command", "outbox", "transient"):
            rows = connection.execute(f"SELECT t::text FROM noetl.{table} t").fetchall()
            assert not [row for (row,) in rows if token in row or vaulted in row or password in row], table
    for name in ("api", "engine", "worker-io", "worker-mixed"):
        said = "\n".join(deployment.logs(name, began - 5))
        assert token not in said and vaulted not in said, name


def test_nobody_is_given_a_credential_for_a_made_up_command(deployment):
    header = "eyJleGVjdXRpb25faWQiOjEsImNvbW1hbmRfaWQiOiIxIiwicnVuIjoxLCJzdGVwIjoicyIsInByb2dyYW0iOiJwIiwidG9rZW4iOiJ4LjAtMC55In0"
    refused = deployment.api("GET", "/api/keychain/1/workspace", headers={"Noetl-Command": header})
    assert (refused.status, refused.body["code"]) == (403, "command_refused")
