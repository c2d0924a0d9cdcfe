"""Variables as they are documented: the tables to the letter, the answers to the byte, the counters under load."""

from __future__ import annotations

import json
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.test_serve import GATED, Client
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres

DOCUMENTED = """
CREATE SCHEMA documented;
CREATE TABLE documented.transient (
  execution_id BIGINT NOT NULL, var_name TEXT NOT NULL, var_type TEXT NOT NULL DEFAULT 'user_defined', var_value JSONB NOT NULL,
  source_step TEXT, access_count INTEGER NOT NULL DEFAULT 0,
  created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), accessed_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
  PRIMARY KEY (execution_id, var_name), CHECK (var_type IN ('user_defined','step_result','computed','iterator_state')));
CREATE INDEX ON documented.transient (execution_id);
CREATE INDEX ON documented.transient (source_step);
CREATE INDEX ON documented.transient (var_type);
CREATE TABLE documented.auth_cache (
  cache_key TEXT PRIMARY KEY, credential_name TEXT NOT NULL, credential_type TEXT NOT NULL,
  cache_type TEXT NOT NULL CHECK (cache_type IN ('secret','token')), scope_type TEXT NOT NULL CHECK (scope_type IN ('execution','global')),
  execution_id BIGINT, parent_execution_id BIGINT, data_encrypted BYTEA NOT NULL, expires_at TIMESTAMPTZ NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), accessed_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), access_count INTEGER NOT NULL DEFAULT 0);
"""
COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)
FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
"""
CONSTRAINTS = "SELECT contype::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass AND contype <> 'n'"
INDEXES = (
    "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = %s::regclass AND NOT indisprimary"
)


def test_the_tables_are_the_documented_ones(database):
    with psycopg.connect(database) as connection:
        connection.execute(DOCUMENTED)
        for table in ("transient", "auth_cache"):
            shapes = []
            for schema in ("documented", "noetl"):
                name = f"{schema}.{table}"
                found = [
                    set(connection.execute(query, [name]).fetchall()) for query in (COLUMNS, CONSTRAINTS)
                ]
                rows = connection.execute(INDEXES, [name]).fetchall()
                shapes.append((*found, {re.sub(r"^.* USING", "", text) for (text,) in rows}))
            (columns, checks, indexes), (ours, our_checks, our_indexes) = shapes
            assert (ours, our_checks) == (columns, checks) and indexes <= our_indexes, table
        connection.rollback()


@pytest.fixture
def client(database, tmp_path):
    settings = Settings(tmp_path / "home", database, lease_seconds=5.0, python_workers=1)
    settings.make_home()
    with Server(settings, ServeSettings(port=0), on_log=lambda line: None) as server:
        yield Client(server.address, server.tokens.add("tester", ["admin"]))


def raw(client: Client, method: str, path: str, body: str | None = None) -> str:
    request = urllib.request.Request(client.address + path, body.encode() if body else None, method=method)
    request.add_header("Authorization", f"Bearer {client.token}")
    with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
        return reply.read().decode()


def timeless(text: str) -> str:
    return re.sub(r'"\d{4}-\d\d-\d\dT[\d:.]+Z"', '"T"', text)


def test_answers_are_the_documented_ones_and_counters_are_exact(client, database):
    client.register(GATED)
    one = client.start("demo/gated")
    client.until(one, "waiting")
    path = f"/api/vars/{one}"
    plain = '"source_step":"start","created_at":"T","accessed_at":"T","access_count"'
    assert timeless(raw(client, "GET", path)) == (
        f'{{"execution_id":"{one}","variables":{{"gone":{{"value":1,"type":"step_result",{plain}:0}},'
        f'"n":{{"value":1,"type":"step_result",{plain}:0}}}},"count":2}}'
    )
    assert timeless(raw(client, "GET", f"{path}/n")) == (
        f'{{"execution_id":"{one}","var_name":"n","value":1,"type":"step_result",{plain}:1}}'
    )
    wish = (
        '{"variables": {"note": "a", "total": 3, "rows": [1]}, "var_type": "computed", "source_step": "gate"}'
    )
    assert raw(client, "POST", path, wish) == (
        f'{{"execution_id":"{one}","variables_set":3,"var_names":["note","total","rows"]}}'
    )
    told = f'{{"execution_id":"{one}","var_name":"rows","deleted":true}}'
    assert raw(client, "DELETE", f"{path}/rows") == told

    with ThreadPoolExecutor(16) as pool:
        sets = [
            pool.submit(client, "POST", path, {"variables": {"note": number, f"own{number}": number}})
            for number in range(100)
        ]
        reads = [pool.submit(client, "GET", f"{path}/total") for _ in range(100)]
        lists = [pool.submit(client, "GET", path) for _ in range(10)]
        assert {done.result()[0] for done in (*sets, *reads, *lists)} == {200}
    counts = sorted(done.result()[1]["access_count"] for done in reads)
    assert counts == list(range(1, 101)), "each read is counted once"
    patch = {"patch": {"approved": True}, "reason": "enough", "correlation_id": "ticket-7"}
    assert client("PATCH", f"/api/executions/{one}/ctx", patch)[0] == 202
    done = client.until(one, "completed", "failed")
    _, listed = client("GET", path)
    assert listed["count"] == 104 and listed["variables"]["total"]["access_count"] == 100
    assert all(listed["variables"][f"own{number}"]["value"] == number for number in range(100))
    _, result = client("GET", f"/api/executions/{one}/result")
    assert done["status"] == "completed" and result["result"]["note"] == listed["variables"]["note"]["value"]
    events = json.loads(raw(client, "GET", f"/api/executions/{one}/events?limit=1000"))["events"]
    patched = [
        event for event in events if event["event_type"] == "ctx.patched" and event["meta"].get("principal")
    ]
    assert len(patched) == 103, "each change is told, with who"
    assert [event["meta"]["correlation_id"] for event in patched if "correlation_id" in event["meta"]] == [
        "ticket-7"
    ]
    assert client("POST", path, {"variables": {"late": 1}})[0] == 409
    assert client("GET", f"{path}/total")[1]["access_count"] == 101, "what has ended can be read"


def test_who_changed_what_and_why_is_told_by_history_and_analysis(client):
    client.register(GATED)
    one = client.start("demo/gated")
    client.until(one, "waiting")
    here = f"/api/executions/{one}"
    asked = {"reason": "by hand", "correlation_id": "ticket-8"}
    assert client("PATCH", f"{here}/ctx", {"patch": {"total": 1}})[0] == 202
    stale = [{"op": "test", "path": "/total", "value": 2}, {"op": "add", "path": "/approved", "value": True}]
    ids = [
        client("PATCH", f"{here}/ctx", {"patch": stale, **asked})[1]["event_id"],
        client("POST", f"{here}/tokens", {"step": "gate", "args": {"n": 7}, **asked})[1]["event_id"],
    ]
    found: list[dict] = []

    def told_of_both() -> bool:
        found[:] = client("POST", f"{here}/analyze", {})[1]["changes"][1:]
        return len(found) == 2

    wait_until(told_of_both, "both changes")
    # Where one batch handles both, what is refused is told after what is done.
    found.sort(key=lambda one: one["name"])
    assert [(one["name"], one["correlation_id"], one["reason"]) for one in found] == [
        ("command.superseded", "ticket-8", "by hand"),
        ("token.injected", "ticket-8", "by hand"),
    ]
    assert {one["principal"] for one in found} == {"token:tester"}
    assert "test" in found[0]["refused"] and not found[1]["refused"]
    assert client("GET", f"{here}/status")[1]["status"] == "waiting", (
        "nothing of a patch that does not fit is done"
    )
    fitting = [
        {"op": "test", "path": "/total", "value": 1},
        {"op": "add", "path": "/approved", "value": True},
    ]
    assert client("PATCH", f"{here}/ctx", {"patch": fitting, **asked})[0] == 202
    client.until(one, "completed")
    events = client("GET", f"{here}/events?limit=1000")[1]["events"]
    told = {event["event_id"]: event["meta"] for event in events if "correlation_id" in event["meta"]}
    assert ids[1] in str(told) and len(told) >= 2
    for method, path, body in (
        ("PATCH", f"{here}/ctx", {"patch": {"a": 1}}),
        ("POST", f"{here}/tokens", {"step": "gate"}),
        ("DELETE", f"/api/vars/{one}/n", None),
    ):
        status, refused = client(method, path, body)
        assert (status, refused["code"]) == (409, "execution_ended")
