"""Sample events of every route group, through the resolver to Postgres and back; connections that are lost on the way."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from noetl.adapters.postgres.connection import Session
from noetl.domain.errors import InfrastructureError
from tests.integration.api.conftest import EVENTS, Deployed

pytestmark = pytest.mark.postgres
GATED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: gated, path: samples/gated}
workflow:
  - step: start
    spec:
      policy:
        admit: {rules: [{when: "{{ ctx.approved | default(false) }}", then: {allow: true}}, {else: {then: {allow: false}}}]}
    tool: {kind: noop}
"""


def started(deployed: Deployed) -> str:
    assert deployed.sample("register").status == 201
    reply = deployed.sample("execute")
    assert reply.status == 201, reply
    return reply.json["execution_id"]


def waiting(deployed: Deployed) -> str:
    deployed.sample("register", body=GATED, isBase64Encoded=False)
    execution_id = deployed.sample("execute", body='{"path": "samples/gated"}').json["execution_id"]
    deployed.work()
    return execution_id


def test_a_playbook_is_registered_started_followed_and_read(deployed):
    execution_id = started(deployed)
    assert deployed.sample("result", execution_id).json["code"] == "not_completed"
    deployed.work()
    assert deployed.sample("status", execution_id, requestContext=iam("status")).json["status"] == "completed"
    events = deployed.sample("events", execution_id).json
    assert events["complete"] and events["events"][0]["event_type"] == "playbook.execution.requested"
    assert deployed.sample("result", execution_id).json["result"] is None
    assert deployed.sample("execution", execution_id).json["steps"][0]["step"] == "start"
    listed = deployed.sample("executions", requestContext=iam("executions")).json["executions"]
    assert [one["execution_id"] for one in listed] == [execution_id]
    assert [one["path"] for one in deployed.sample("catalog").json["playbooks"]] == ["samples/hello"]
    assert "kind: noop" in deployed.sample("playbook").json["content"]
    assert deployed.sample("register_json").json["created"] is False


def iam(name: str) -> dict:
    """The request context of a sample, as another authoriser would give it."""
    context = json.loads((EVENTS / f"{name}.json").read_text("utf-8"))["requestContext"]
    return {**context, "authorizer": {"iam": {"userArn": "arn:aws:iam::123456789012:user/ann"}}}


@pytest.mark.parametrize("name", ["executions", "status"])
def test_people_come_with_tokens(deployed_jwt, name):
    reply = deployed_jwt.sample(name)
    assert reply.status == (200 if name == "executions" else 404)
    assert deployed_jwt.sample("execution").status == 401


@pytest.mark.parametrize("name", ["patch_context", "token", "cancel"])
def test_executions_are_changed_by_events_that_are_durable_first(deployed, name):
    execution_id = waiting(deployed)
    reply = deployed.sample(name, execution_id)
    assert reply.status == 202, reply
    with psycopg.connect(deployed.database._dsn) as admin:
        kept = admin.execute(
            "SELECT event_id, owner FROM noetl.outbox WHERE execution_id = %s", (execution_id,)
        ).fetchall()
    assert kept == [(reply.json["event_id"], "test-engine")]
    deployed.work()
    status = deployed.sample("status", execution_id, requestContext=iam("status")).json["status"]
    assert status == {"patch_context": "completed", "token": "waiting", "cancel": "cancelled"}[name]


@pytest.mark.parametrize("name", ["health", "ready", "openapi"])
def test_the_open_routes_need_no_caller(deployed, name):
    assert deployed.sample(name).status == 200


def test_every_sample_is_understood(deployed):
    for file in EVENTS.glob("*.json"):
        reply = deployed.sample(file.stem, requestContext=iam(file.stem))
        assert reply.status in (200, 201, 404), (file.name, reply)
        if reply.status == 404:
            assert reply.json["code"] in ("execution_not_found", "playbook_not_found"), file.name


def test_a_request_that_is_sent_twice_at_once_starts_one_execution(deployed):
    deployed.sample("register")
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: start_directly(deployed), range(32)))
    assert {status for status, _ in replies} == {201}
    assert len({execution_id for _, execution_id in replies}) == 1
    assert len(deployed.store.executions(limit=50)) == 1


def start_directly(deployed: Deployed) -> tuple[int, str]:
    """Past the resolver, which is one thread's: as many functions would."""
    from noetl.api.http.dispatch import Api, answer
    from noetl.api.http.exchange import Principal, Request
    from noetl.api.table import ROUTES

    (route,) = [one for one in ROUTES if one.name == "startExecution"]
    request = Request(
        "POST", "/api/executions", headers={"idempotency-key": "one"}, body=b'{"path": "samples/hello"}'
    )
    found = answer(
        Api(lambda: deployed.deps), route, request, Principal("p", "iam", "p", frozenset({"execute"}))
    )
    return found.status, found.value.execution_id


# --- connections --------------------------------------------------------------------------------------


def hang_up(deployed: Deployed) -> None:
    """The server closes every connection of this database, as a failover or a pause does between invocations."""
    with psycopg.connect(deployed.database._dsn, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_connections_that_were_closed_between_invocations_are_made_anew(deployed):
    execution_id = started(deployed)
    for _ in range(3):
        hang_up(deployed)
        assert deployed.sample("execution", execution_id).status == 200
    deployed.database.close()
    assert deployed.sample("execution", execution_id).status == 200
    assert [line for line in deployed.logs if " did registerPlaybook: 201 " not in line] == []


@pytest.mark.parametrize("after", [False, True])
def test_a_connection_that_dies_under_a_request_is_replaced(deployed, monkeypatch, after):
    """``after``: the statement was carried out, its answer was lost."""
    deployed.sample("register")
    send, died = Session._send, threading.Event()

    def dying(session, statement, parameters):
        if statement.name == "create_execution" and not died.is_set():
            died.set()
            if after:
                send(session, statement, parameters)
            session.connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return send(session, statement, parameters)

    monkeypatch.setattr(Session, "_send", dying)
    reply = deployed.sample("execute", headers={})
    assert died.is_set() and reply.status == 201, reply
    assert [str(one.execution_id) for one in deployed.store.executions(limit=9)] == [
        reply.json["execution_id"]
    ]
    deployed.work()
    assert deployed.store.info(int(reply.json["execution_id"])).status == "completed"


def test_a_database_that_is_away_is_a_503(deployed, monkeypatch):
    def refuse(session, *args, **kwargs):
        raise psycopg.OperationalError("no route to host")

    deployed.database.close()
    monkeypatch.setattr("noetl.adapters.postgres.connection.psycopg.connect", refuse)
    reply = deployed.sample("execution")
    assert (reply.status, reply.json["code"]) == (503, "database_unreachable")
    assert reply.headers["Retry-After"]
    with pytest.raises(InfrastructureError):
        deployed.store.info(1)
