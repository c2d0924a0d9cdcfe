"""Requests that wait for the end of an execution: at a real ``noetl serve``, and where an engine elsewhere brings about the end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from noetl.adapters.postgres.executions.views import PostgresLooking
from noetl.api.http import waiting
from noetl.runtime.server.serve import Server
from tests.integration.api.test_serve import (  # noqa: F401
    GATED,
    LARGE,
    Client,
    Serve,
    client,
    serve,
    server,
)
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres

DOUBLE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: double, path: demo/double }
workload: { n: 21 }
workflow:
  - { step: start, tool: { kind: python, args: { n: "{{ workload.n }}" }, code: "def main(n): return n * 2" } }
"""


def waiters(server: Server) -> int:  # noqa: F811
    return sum(map(len, server.runtime._ended._awaited.values()))


def approved(client: Client, execution_id: str) -> None:  # noqa: F811
    client.until(execution_id, "waiting")
    status, answer = client("PATCH", f"/api/executions/{execution_id}/ctx", {"patch": {"approved": True}})
    assert status == 202, answer


def test_a_start_that_waits_is_answered_with_the_result(server, client):  # noqa: F811
    client.register(DOUBLE)
    status, told = client("POST", "/api/executions?wait=60", {"path": "demo/double", "payload": {"n": 4}})
    assert (status, told["status"], told["ended"], told["result"]) == (201, "completed", True, 8)
    client.register(LARGE)
    status, told = client("POST", "/api/execute?wait=60", {"path": "demo/large"})
    assert (status, told["complete"], len(told["result"]["text"])) == (201, True, 60000)
    assert waiters(server) == 0


def ending_in(*tasks: str) -> str:
    """A playbook that waits for approval, and completes with what these tasks give."""
    arcs = ", ".join(f"{{ step: s{number} }}" for number in range(len(tasks)))
    steps = "".join(f"  - {{ step: s{number}, {task} }}\n" for number, task in enumerate(tasks))
    return (
        GATED.replace("demo/gated", "demo/ending")
        + f"    next: {{ spec: {{ mode: inclusive }}, arcs: [{arcs}] }}\n{steps}"
    )


@pytest.mark.parametrize(
    "tasks",
    [
        ["tool: { kind: noop, args: { a: [1, null], b: { c: 0.5 } } }"],
        ["tool: { kind: noop, args: { a: 1 } }", "tool: { kind: noop, args: { b: 2 } }"],
        ["loop: { in: [1, 2, 3], iterator: i }, tool: { kind: noop, args: { i: '{{ iter.i }}' } }"],
        ["tool: { kind: noop, args: { text: \"{{ 'x' * 60000 }}\" } }"],
        ["set: { ctx.x: 1 }"],
    ],
    ids=["one", "two", "loop", "large", "none"],
)
def test_a_waiting_request_is_told_what_the_result_route_tells(server, client, tasks: list[str]):  # noqa: F811
    client.register(ending_in(*tasks))
    with ThreadPoolExecutor(1) as threads:
        one = threads.submit(client, "POST", "/api/executions?wait=60", {"path": "demo/ending"})
        wait_until(lambda: waiters(server) == 1, "the request waits")
        execution_id = client("GET", "/api/executions")[1]["executions"][0]["execution_id"]
        approved(client, execution_id)
        status, told = one.result(PATIENCE)
    assert (status, told["status"], told["ended"], told["error"]) == (201, "completed", True, None)
    result = client("GET", f"/api/executions/{execution_id}/result")[1]
    assert {name: told[name] for name in result} == result


def test_a_result_that_this_process_knows_is_not_read(server, client, monkeypatch):  # noqa: F811
    client.register(GATED)
    with ThreadPoolExecutor(1) as threads:
        one = threads.submit(client, "POST", "/api/executions?wait=60", {"path": "demo/gated"})
        wait_until(lambda: waiters(server) == 1, "the request waits")
        execution_id = client("GET", "/api/executions")[1]["executions"][0]["execution_id"]
        monkeypatch.delattr(PostgresLooking, "endings")
        approved(client, execution_id)
        assert one.result(PATIENCE)[1]["status"] == "completed"


def test_an_end_in_this_process_is_a_signal(server, client):  # noqa: F811
    client.register(GATED)
    execution_id = client.start("demo/gated")
    with server.runtime.expect_end(int(execution_id)) as pause:
        approved(client, execution_id)
        assert pause(PATIENCE)
    with server.runtime.expect_end(int(execution_id)) as pause:
        assert pause(0), "it has ended already"


def test_a_wait_after_a_redrive_is_for_the_next_end(server, client, monkeypatch):  # noqa: F811
    """The redrive is accepted, and the engine has not begun it: the end that the store shows is the one before."""
    client.register(GATED)
    execution_id = client.start("demo/gated")
    approved(client, execution_id)
    client.until(execution_id, "completed")
    inbox, held = server.runtime._inbox, []
    put = inbox.put
    monkeypatch.setattr(inbox, "put", lambda events, turn=False: held.append(list(events)))
    status, answer = client("POST", f"/api/executions/{execution_id}/redrive", {"from": "start"})
    assert status == 202, answer
    wait_until(lambda: held != [], "the redrive on its way to the engine")
    with ThreadPoolExecutor(1) as threads:
        one = threads.submit(client, "GET", f"/api/executions/{execution_id}/status?wait=60")
        wait_until(lambda: waiters(server) == 1 or one.done(), "the request")
        assert not one.done(), "it is answered with the end before the redrive"
        monkeypatch.undo()
        for events in held:
            put(events)
        assert one.result(PATIENCE)[1]["status"] == "completed"
    (began, again) = [
        event
        for event in client("GET", f"/api/executions/{execution_id}/events")[1]["events"]
        if event["event_type"] == "playbook.completed"
    ]
    assert began["event_id"] != again["event_id"]


def test_requests_that_wait_leave_threads_to_others(serve: Serve):  # noqa: F811
    """More wait than there are threads; beyond their places others are answered at once."""
    with serve(threads=1) as server, ThreadPoolExecutor(16) as threads:  # noqa: F811
        assert server.tokens is not None
        client = Client(server.address, server.tokens.add("tester", ["admin"]))
        client.register(GATED)
        execution_id = client.start("demo/gated")
        where = f"/api/executions/{execution_id}/status?wait=60"
        first = [threads.submit(client, "GET", where) for _ in range(16)]
        wait_until(lambda: waiters(server) == 16, "sixteen requests wait")
        assert client("GET", where)[1]["ended"] is False
        status, told = client("POST", "/api/executions?wait=60", {"path": "demo/gated"})
        assert (status, told["ended"]) == (201, False)
        assert client("GET", "/health")[0] == client("GET", "/api/executions")[0] == 200
        approved(client, execution_id)
        assert [one.result(PATIENCE)[1]["status"] for one in first] == ["completed"] * 16
        assert waiters(server) == 0


def test_a_server_that_ends_answers_those_who_wait(serve: Serve):  # noqa: F811
    with ThreadPoolExecutor(1) as threads:
        with serve() as server:
            assert server.tokens is not None
            client = Client(server.address, server.tokens.add("tester", ["admin"]))
            client.register(GATED)
            execution_id = client.start("demo/gated")
            one = threads.submit(client, "GET", f"/api/executions/{execution_id}?wait=60")
            wait_until(lambda: waiters(server) == 1, "a request waits")
        status, told = one.result(PATIENCE)
        assert (status, told["status"] in ("running", "waiting")) == (200, True)


def test_where_the_engine_is_elsewhere_the_store_tells_of_the_end(deployed: Any, monkeypatch):
    """As on a deployment: nothing in the function knows how far the engine is."""
    looked: list[float] = []
    rest, thread = waiting.time.sleep, threading.get_ident()

    def sleep(seconds: float) -> None:
        if threading.get_ident() != thread:  # of another test, say
            rest(seconds)
            return
        looked.append(seconds)
        deployed.work()

    monkeypatch.setattr(waiting.time, "sleep", sleep)
    assert deployed.sample("register").status == 201
    reply = deployed.sample("execute", queryStringParameters={"wait": "20"})
    assert reply.status == 201, reply
    assert (reply.json["ended"], reply.json["status"], len(looked)) == (True, "completed", 1)
