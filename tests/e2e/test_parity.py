"""The deployed API and ``noetl serve`` are one: the same requests, a fitting and a broken one to every route, are answered alike."""

from __future__ import annotations

import http.client
import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest

from noetl.api.table import ROUTES
from noetl.domain.capability_tokens import KeyRing
from noetl.runtime.local.keys import local_keys
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.e2e.test_failures import token_keys
from tests.parts import repeated
from tests.unit.api.ground import HELLO, shown_command
from tests.unit.api.test_refusals import path_of
from tests.unit.api.test_routes import exchange
from tests.waiting import PATIENCE, wait_until

ELSEWHERE = {
    "querySql": (404, 200),  # this server has a database of its own, without a login that reads alone
    "beginSession": (200, 404),
    "getStream": (200, 404),
    "endSession": (200, 401),
    "revokeSession": (200, 404),
    "createToken": (201, 404),
    "deleteToken": (200, 404),
    # CloudWatch measures a deployment.
    "getMetrics": (200, 404),
}
"""What is not alike: status of ``noetl serve``, and of a deployment."""
REAL = (
    ('{kind: double, value: "{{ workload.n }}"}', '{kind: noop, args: {n: "{{ workload.n }}"}}'),
    ('{kind: double, value: "{{ 6 / (iter.n % 3) }}"}', '{kind: noop, args: {n: "{{ 6 / (iter.n % 3) }}"}}'),
    ("{kind: double, value: 1}", "{kind: noop, args: {n: 1}}"),
    ("{kind: double, value: 4}", "{kind: noop, args: {n: 4}}"),
)
"""The kind of the unit tests, in words that a deployment knows."""
STEP = repeated(gate=2, full=1)
"""Of every second route `make test` sends the fitting request, too: half of them run playbooks."""
STEERED = {"cancel": "cancelled", "pause": "paused"}


class Reply:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:300]!r}>"


class Door:
    """What ``exchange`` asks of a ground, over HTTP. Commands of others are not to be had there, so what they say is garbage.

    ``pool``: of the worker that is registered. It runs nothing, so it has a pool that runs none of these playbooks: commands of its pool
    wait for it until it is taken for dead.
    """

    def __init__(self, address: str, keys: KeyRing, pool: str, token: str = "") -> None:
        self.keys, self.pool = keys, pool
        where = urlsplit(address)
        self.base = where.path.rstrip("/")
        self.http = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE)
        self.token = token
        self.known: dict[str, Any] = {}
        self.steered: tuple[str, str] | None = None
        self.deps = SimpleNamespace(results=SimpleNamespace(put=lambda uri, data: None))

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        query = f"?{urlencode(options['query'])}" if options.get("query") else ""
        sent = {"content-type": "application/json", **options.get("headers", {})}
        if isinstance(body, dict) and "pool" in body:
            body = {**body, "pool": self.pool}
        if self.token:
            sent["authorization"] = f"Bearer {self.token}"
        data = body if isinstance(body, str) or body is None else json.dumps(body)
        where = quote(f"{self.base}{path}", safe="/%@:$") + query
        self.http.request(method, where, None if data is None else data.encode(), sent)
        reply = self.http.getresponse()
        what = path.rpartition("/")[2]
        if method != "GET":
            accepted = what in STEERED and reply.status < 300
            self.steered = (path.rpartition("/")[0], STEERED[what]) if accepted else None
        headers = {"Location": "/nowhere"} | {name.title(): value for name, value in reply.getheaders()}
        return Reply(reply.status, headers, reply.read())

    def register(self, text: str = HELLO) -> Any:
        if text not in self.known:
            real = text
            for ours, theirs in REAL:
                real = real.replace(ours, theirs)
            reply = self.ask("POST", "/api/catalog/register", {"content": real})
            assert reply.status in (200, 201), reply
            self.known[text] = reply.json
        return self.known[text]

    def run(self, text: str = HELLO, **body: Any) -> str:
        reply = self.ask("POST", "/api/executions", {"path": self.register(text)["path"], **body})
        assert reply.status == 201, reply
        execution_id: str = reply.json["execution_id"]
        self._until(f"/api/executions/{execution_id}", "completed", "waiting")
        return execution_id

    def settle(self) -> None:
        if self.steered is not None:
            self._until(*self.steered)

    def _until(self, place: str, *statuses: str) -> None:
        wait_until(lambda: self.ask("GET", f"{place}/status").json["status"] in statuses, f"{statuses}")

    def shown(self, execution_id: str) -> dict[str, str]:
        return shown_command(int(execution_id), self.keys)

    def issued(self) -> Any:
        return SimpleNamespace(execution_id=1, command_id="nobody")

    offered = issued

    def capability(self, command: Any) -> Any:
        return SimpleNamespace(header=lambda: "e30")


def visit(door: Door) -> dict[str, tuple[int, str]]:
    """Every route, and what it answered: status and code of a fitting request, and of one that cannot be read."""
    found = {}
    for number, route in enumerate(ROUTES):
        if number % STEP == 0:
            fitting = exchange(door, route.name)  # type: ignore[arg-type]
            found[route.name] = fitting.status, code(fitting)
        garbage = door.ask(route.method, path_of(route, "garbage").replace("{", "").replace("}", ""), "{")
        found[f"{route.name}, garbage"] = garbage.status, code(garbage)
    return found


def code(reply: Reply) -> str:
    is_problem = reply.headers.get("Content-Type", "").startswith("application/problem+json")
    return str(reply.json["code"]) if is_problem else ""


@pytest.mark.postgres
def test_every_route_answers_alike_here_and_there(deployment, database, tmp_path, monkeypatch):
    monkeypatch.setattr("noetl.api.live.change_hub.LIFE_SECONDS", 0.0)
    settings = Settings(tmp_path / "home", database, python_workers=1)
    settings.make_home()
    with Server(settings, ServeSettings(port=0), on_log=lambda line: None) as server:
        assert server.tokens is not None
        token = server.tokens.add("parity", ["admin", "worker"])
        here = visit(Door(server.address, local_keys(settings.home), "cpu", token))
    there = visit(door := Door(deployment.url, token_keys(deployment), "mixed"))
    for left in (
        "/api/schedules/daily",
        "/api/schedules/hourly",
        "/api/triggers/orders",
        "/api/credentials/team/db",
    ):
        door.ask("DELETE", left)
    door.ask(
        "POST", "/api/worker/pool/deregister", {"name": "w"}
    )  # it would be offered the commands of tests that follow
    assert not [name for name, (status, _) in there.items() if status >= 500]
    unlike = {
        name: (here[name], there[name])
        for name in here
        if here[name] != there[name]
        and (here[name][0], there[name][0]) != ELSEWHERE.get(name.partition(",")[0])
    }
    assert not unlike, "\n".join(f"{name}: {pair}" for name, pair in unlike.items())
