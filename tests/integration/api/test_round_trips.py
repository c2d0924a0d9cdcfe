"""What requests to ``noetl serve`` cost the database, in round trips of their own threads and of the engine's, which begins executions."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from noetl.adapters.postgres.connection import Database
from noetl.domain.errors import InfrastructureError
from noetl.runtime.local import event_inbox
from noetl.runtime.server import serve as serving
from noetl.services.orchestrator import handle_events
from noetl.services.support import store_time
from tests.integration.api.test_serve import Client, Serve, client, serve, server  # noqa: F401
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres

ONE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: one, path: own/name }
workflow:
  - { step: start, tool: { kind: noop, args: { n: "{{ workload.n }}" } } }
"""
REGISTERED = {"path": "demo/one", "content": ONE}
LOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: loop, path: demo/loop }
workflow:
  - step: start
    loop: { in: "{{ range(workload.n) | list }}", iterator: item, mode: parallel }
    tool: { kind: noop }
    next: gate
  - step: gate
    spec:
      policy:
        admit:
          rules: [{ when: "{{ ctx.approved | default(false) }}", then: { allow: true } }, { else: { then: { allow: false } } }]
    tool: { kind: noop }
"""
LOOKS = ("", "/status", "/steps", "/events?limit=50", "?wait=0.001", "/status?wait=0.001")
PRESSURE = "backlog"
"""What a request asks at most once a second, on behalf of all."""
BEGIN = {"playbook_programs": 1, "commit_changes": 1}


class Trips:
    """``each``: called with the name of a query before a request sends it; ``after``: when it has been answered."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.rows: list[tuple[str, int]] = []
        """Queries of requests, and the number of rows that each returned. The engine's thread asks at times of its own."""
        self.each: Callable[[str], None] = lambda name: None
        self.after: Callable[[str], None] = lambda name: None

    def take(self) -> Mapping[str, int]:
        found, self.names = self.names, []
        return Counter(name for name in found if PRESSURE not in name)


@pytest.fixture(autouse=True)
def trips(monkeypatch: pytest.MonkeyPatch) -> Trips:
    made, run = Trips(), Database.run

    def counted(self: Database, name: str, values: Mapping[str, bytes | None]) -> Any:
        if not threading.current_thread().name.startswith(("noetl-request", "noetl-engine")):
            return run(self, name, values)
        made.names.append(name)
        made.each(name)
        found = run(self, name, values)
        if threading.current_thread().name.startswith("noetl-request") and PRESSURE not in name:
            made.rows.append((name, len(found)))
        made.after(name)
        return found

    monkeypatch.setattr(Database, "run", counted)
    monkeypatch.setattr(store_time, "EVERY_SECONDS", math.inf)
    # Who waits learns of the end by a signal alone, however long that takes.
    monkeypatch.setattr(serving, "LOOK_SECONDS", PATIENCE)
    return made


def register(client: Client) -> None:  # noqa: F811
    """Register the playbook, and let the server read its program and the time of the store."""
    assert client("POST", "/api/catalog/register", REGISTERED)[0] == 201
    start(client, "?wait=60")


def start(client: Client, query: str = "", **payload: Any) -> Any:  # noqa: F811
    body = {"path": "demo/one", "payload": {"n": 1, **payload}}
    status, answer = client("POST", f"/api/executions{query}", body)
    assert status == 201, answer
    return answer


def test_a_start_takes_a_query_of_the_catalog_and_a_commit(client, trips):  # noqa: F811
    register(client)
    trips.take()
    first = start(client)
    assert trips.take() == BEGIN
    client.until(first["execution_id"], "completed")
    listed = client("GET", "/api/executions")[1]["executions"][0]
    assert (listed["path"], listed["name"]) == ("demo/one", "one"), "as it was asked for"


def test_a_start_that_waits_takes_one_more_for_what_came_of_it(client, trips):  # noqa: F811
    register(client)
    trips.take()
    for n in range(5):
        told = start(client, "?wait=60", n=n)
        assert (told["status"], told["result"]) == ("completed", {"n": n})
        assert trips.take() == {**BEGIN, "endings": 1}


def test_a_result_takes_one_query(client, trips):  # noqa: F811
    register(client)
    execution_id = start(client, "?wait=60")["execution_id"]
    trips.take()
    status, told = client("GET", f"/api/executions/{execution_id}/result")
    assert (status, told["result"], trips.take()) == (200, {"n": 1}, {"endings": 1})


def test_starts_that_come_during_a_commit_share_the_next_one(
    serve: Serve,  # noqa: F811
    trips: Trips,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_inbox, "TURN_SECONDS", PATIENCE)
    began, go = threading.Event(), threading.Event()

    def hold(name: str) -> None:
        if name == "commit_changes" and not began.is_set():
            began.set()
            assert go.wait(PATIENCE)

    with serve(threads=16) as server, ThreadPoolExecutor(9) as threads:  # noqa: F811
        assert server.tokens is not None
        client = Client(server.address, server.tokens.add("tester", ["admin"]))
        register(client)
        trips.each = hold
        first = threads.submit(start, client)
        assert began.wait(PATIENCE)
        trips.take()
        others = [threads.submit(start, client, n=n) for n in range(8)]
        wait_until(lambda: server.runtime.gauges()[0].waiting == 8, "eight starts wait")
        go.set()
        ids = {one.result(PATIENCE)["execution_id"] for one in [first, *others]}
        assert len(ids) == 9 and trips.take()["commit_changes"] == 1
        assert {client.until(one, "completed")["status"] for one in ids} == {"completed"}


def test_a_start_whose_commit_is_in_doubt_is_made_once(client, trips):  # noqa: F811
    register(client)
    doubts = ["one"]

    def doubt(name: str) -> None:
        if name == "commit_changes" and doubts:
            doubts.pop()
            raise InfrastructureError("the answer was lost", code="outcome_unknown")

    trips.after = doubt
    execution_id = start(client)["execution_id"]
    assert not doubts
    client.until(execution_id, "completed")
    listed = client("GET", "/api/executions")[1]["executions"]
    assert [one["execution_id"] for one in listed][:-1] == [execution_id]


def test_starts_that_draw_the_same_id_are_two_executions(client, trips, monkeypatch):  # noqa: F811
    from noetl.api.http import exchange

    register(client)
    request = exchange.Request("POST", "/api/executions")
    monkeypatch.setattr(exchange.Request, "__init__", _at(request.now_ms, exchange.Request.__init__))
    ids = {start(client, "?wait=60", n=n)["execution_id"] for n in range(3)}
    assert len(ids) == 3 == len(client("GET", "/api/executions")[1]["executions"]) - 1


def _at(now_ms: int, make: Callable[..., None]) -> Callable[..., None]:
    def made(self: Any, *values: Any, **named: Any) -> None:
        make(self, *values, **{"now_ms": now_ms, "bits": 7, **named})

    return made


def test_a_start_that_the_engine_fails_on_is_left_to_the_inbox(client, trips, monkeypatch):  # noqa: F811
    register(client)
    make, failing = handle_events.make_change, ["one"]

    def fail(*values: Any, **named: Any) -> Any:
        if failing:
            failing.pop()
            raise ValueError("a defect")
        return make(*values, **named)

    monkeypatch.setattr(handle_events, "make_change", fail)
    told = start(client, "?wait=60", n=3)
    assert (told["status"], told["result"], failing) == ("completed", {"n": 3}, [])


def test_who_waits_is_told_of_an_end_in_the_commit_of_the_start(client, trips):  # noqa: F811
    """It has ended before the request can expect the signal."""
    register(client)
    bare = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: bare, path: demo/bare }\nworkflow:\n  - step: start\n"
    client.register(bare)
    assert client("POST", "/api/executions?wait=60", {"path": "demo/bare"})[1]["ended"]
    trips.take()
    status, told = client("POST", "/api/executions?wait=60", {"path": "demo/bare"})
    assert (status, told["status"], trips.take()) == (201, "completed", {**BEGIN, "endings": 1})


def test_looks_at_an_execution_read_as_many_rows_whatever_the_items_of_its_loop(client, trips):  # noqa: F811
    """While it waits, and after its end; a page of events is read from the items of the loop, and no more of them than it shows."""
    client.register(LOOP)

    def read(place: str) -> frozenset[tuple[str, int]]:
        trips.rows = []
        assert client("GET", place)[0] == 200
        return frozenset(trips.rows)  # how often one that waits looks at a row is a matter of time

    def looks(execution_id: str) -> list[frozenset[tuple[str, int]]]:
        places = [f"/api/executions/{execution_id}{look}" for look in LOOKS]
        return [read(place) for place in [*places, f"/api/executions?ids={execution_id}"]]

    def rows(items: int) -> Any:
        execution_id = client.start("demo/loop", payload={"n": items})
        client.until(execution_id, "waiting")
        waiting = looks(execution_id)
        steered = client("PATCH", f"/api/executions/{execution_id}/ctx", {"patch": {"approved": True}})
        assert steered[0] == 202 and client.until(execution_id, "completed")
        return [waiting, looks(execution_id), read(f"/api/executions/{execution_id}/result")]

    few, many = rows(600), rows(6000)
    assert many == few
