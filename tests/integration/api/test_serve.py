"""``noetl serve`` over real HTTP: the same routes, tokens, and an engine that does what was asked for."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from noetl.domain.errors import InvalidInputError
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres

LARGE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: large, path: demo/large }
workflow:
  - step: start
    tool: { kind: noop, args: { text: "{{ 'x' * 60000 }}", more: "{{ 'y' * 60000 }}" } }
"""
GATED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: gated, path: demo/gated }
workflow:
  - { step: start, tool: { kind: noop, args: { n: 1 } }, vars: { n: "{{ result.n }}", gone: 1 }, next: gate }
  - step: gate
    spec:
      policy:
        admit:
          rules: [{ when: "{{ ctx.approved | default(false) }}", then: { allow: true } }, { else: { then: { allow: false } } }]
    tool: { kind: noop, args: { n: "{{ vars.n }}", note: "{{ vars.note | default('none') }}", gone: "{{ vars.gone is defined }}" } }
"""


class Client:
    def __init__(self, address: str, token: str = "") -> None:
        self.address, self.token = address, token

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        if isinstance(body, dict):
            sent.setdefault("Content-Type", "application/json")
        url = path if path.startswith("http") else self.address + path
        request = urllib.request.Request(url, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                return reply.status, json.loads(reply.read())
        except HTTPError as refused:
            return refused.code, json.loads(refused.read())

    def register(self, text: str) -> None:
        status, answer = self("POST", "/api/catalog/register", text, Content_Type="application/yaml")
        assert status in (200, 201), answer

    def start(self, path: str, **body: Any) -> str:
        status, answer = self("POST", "/api/executions", {"path": path, **body})
        assert status == 201, answer
        return answer["execution_id"]

    def until(self, execution_id: str, *wanted: str) -> Any:
        found: dict[str, Any] = {}

        def reached() -> bool:
            found.update(self("GET", f"/api/executions/{execution_id}/status")[1])
            return found["status"] in wanted

        wait_until(reached, lambda: f"{found}; one of {wanted}")
        return found


Serve = Callable[..., AbstractContextManager[Server]]


@pytest.fixture
def serve(database: str, tmp_path: Path) -> Serve:
    def opened(**wish: Any) -> AbstractContextManager[Server]:
        settings = Settings(tmp_path / "home", database, lease_seconds=2.0, python_workers=1)
        settings.make_home()
        return Server(settings, ServeSettings(**{"port": 0, **wish}), on_log=lambda line: None)

    return opened


@pytest.fixture
def server(serve: Serve) -> Iterator[Server]:
    with serve() as made:
        yield made


@pytest.fixture
def client(server: Server) -> Client:
    assert server.tokens is not None
    return Client(server.address, server.tokens.add("tester", ["admin"]))


def test_tokens_say_who_may_do_what_and_end_when_they_are_removed(server, client):
    client.register(LARGE)
    reader = Client(server.address, server.tokens.add("reader", ["read"]))
    assert reader("GET", "/api/executions")[0] == 200
    status, answer = reader("POST", "/api/executions", {"path": "demo/large"})
    assert (status, answer["code"]) == (403, "forbidden")
    for token in ("", "noetl_guess", reader.token[:-1]):
        status, answer = Client(server.address, token)("GET", "/api/executions")
        assert (status, answer["code"]) == (401, "unauthenticated")
    server.tokens.remove("reader")
    assert reader("GET", "/api/executions")[0] == 401
    assert Client(server.address)("GET", "/health")[0] == 200


def test_a_damaged_file_of_tokens_keeps_everybody_out_until_it_is_mended_and_health_is_told(server, client):
    file = server.tokens._path
    whole = file.read_bytes()
    file.write_bytes(b'{"half')
    status, refused = client("GET", "/api/executions")
    assert (status, refused["code"], refused["retryable"]) == (503, "tokens_unreadable", True)
    assert str(file.parent) not in str(refused)
    assert client("GET", "/health")[0] == 200
    file.write_bytes(whole)
    assert client("GET", "/api/executions")[0] == 200


def test_an_execution_is_run_and_its_large_parts_are_downloaded_by_link(server, client):
    client.register(LARGE)
    first = client("POST", "/api/executions", {"path": "demo/large"}, Idempotency_Key="one")
    again = client("POST", "/api/executions", {"path": "demo/large"}, Idempotency_Key="one")
    assert first == again and first[0] == 201
    execution_id = first[1]["execution_id"]
    client.until(execution_id, "completed")
    _, whole = client("GET", f"/api/executions/{execution_id}/result")
    assert whole["result"] == {"text": "x" * 60000, "more": "y" * 60000}
    links = server.links
    uri = f"noetl://execution/{execution_id}/result/start/by-hand"
    server.runtime.opened.results.put(uri, b'{"rows": [1, 2]}')
    anybody = Client(server.address)
    assert anybody("GET", links.link(uri, 60)) == (200, {"rows": [1, 2]})
    _, one = client("GET", f"/api/executions/{execution_id}/result?ref={uri}")
    assert anybody("GET", one["downloads"][0]["url"]) == (200, {"rows": [1, 2]})
    _, parts = client("GET", f"/api/executions/{execution_id}/result?parts=true")
    assert parts["complete"] == (not parts["downloads"])
    status, answer = client(
        "GET", f"/api/executions/{execution_id}/result?ref=noetl://execution/1/result/x/y"
    )
    assert (status, answer["code"]) == (400, "invalid_parameter")
    for bad in (links.link(uri, -1), links.link(uri, 60)[:-2], f"{server.address}/api/downloads/x.y"):
        status, answer = anybody("GET", bad)
        assert (status, answer["code"]) == (404, "link_invalid")


def test_variables_of_the_api_and_of_playbooks_are_one_store(client):
    client.register(GATED)
    execution_id = client.start("demo/gated")
    place = f"/api/vars/{execution_id}"
    wait_until(lambda: client("GET", place)[1].get("count"), "a variable")
    status, found = client("GET", f"{place}/n")
    assert (status, found["value"], found["type"], found["source_step"]) == (200, 1, "step_result", "start")
    assert client("POST", place, {"variables": {"note": {"by": "hand"}, "n": 7}, "reason": "by hand"}) == (
        200,
        {"execution_id": execution_id, "variables_set": 2, "var_names": ["note", "n"]},
    )
    assert client("GET", f"{place}/n")[1]["access_count"] == 2
    assert client("DELETE", f"{place}/gone")[1] == {
        "execution_id": execution_id,
        "var_name": "gone",
        "deleted": True,
    }
    shown = client("GET", place)[1]["variables"]
    assert {name: (one["value"], one["type"], one["access_count"]) for name, one in shown.items()} == {
        "n": (7, "user_defined", 2),
        "note": ({"by": "hand"}, "user_defined", 0),
    }
    client("PATCH", f"/api/executions/{execution_id}/ctx", {"patch": {"approved": True}})
    client.until(execution_id, "completed")
    _, result = client("GET", f"/api/executions/{execution_id}/result")
    assert result["result"] == {"n": 7, "note": {"by": "hand"}, "gone": False}
    _, page = client("GET", f"/api/executions/{execution_id}/events?limit=1000")
    told = [event["payload"] for event in page["events"] if event["event_type"] == "ctx.patched"]
    assert [one.get("reason") for one in told if one.get("principal") == "token:tester"][:1] == ["by hand"]
    assert client("POST", place, {"variables": {"n": 8}})[0] == 409
    assert client("GET", f"{place}/n")[1]["value"] == 7


def test_what_a_server_left_goes_on_in_the_next_one(serve):
    with serve() as server:
        token = server.tokens.add("tester", ["admin"])
        client = Client(server.address, token)
        client.register(GATED)
        execution_id = client.start("demo/gated")
    with serve() as server:
        client = Client(server.address, token)
        approve = ("PATCH", f"/api/executions/{execution_id}/ctx", {"patch": {"approved": True}})
        wait_until(lambda: client(*approve)[0] != 202, "an end, after which nothing is taken")
        client.until(execution_id, "completed")


def test_without_tokens_only_this_machine_is_answered_and_no_page_of_another_site(serve):
    with (
        pytest.raises(InvalidInputError, match="would let everybody in"),
        serve(host="0.0.0.0", open_to_all=True),
    ):
        pass
    with serve(open_to_all=True) as server:
        client = Client(server.address)
        assert client("GET", "/api/executions")[0] == 200
        assert client("GET", "/api/executions", Host="localhost:99")[0] == 200
        assert client("GET", "/api/executions", Host="evil.example")[0] == 403
        assert client("GET", "/api/executions", Origin="https://evil.example")[0] == 403


def test_odd_requests_are_refused_politely(client):
    for method, path, status in (
        ("GET", "/api/nothing", 404),
        ("DELETE", "/api/executions", 405),
        ("GET", "/api/executions/%00/status", 400),
        ("GET", "/api/catalog/%2e%2e%2fetc", 422),
        ("POST", "/api/executions", 422),
    ):
        found, answer = client(method, path, {} if method == "POST" else None)
        assert found == status and answer["status"] == status, (path, answer)
