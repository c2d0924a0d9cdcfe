"""Who may do what, through ``noetl serve``: every route without credentials, with too little, about what there is not, and with garbage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.api.http.access import SCOPES
from noetl.api.table import ROUTES
from noetl.runtime.local.keys import local_keys
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.test_serve import Client
from tests.unit.api.ground import shown_command
from tests.unit.api.test_refusals import BODIES, GUARDED, NOBODY, ONE, path_of

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = Settings(tmp_path_factory.mktemp("access") / "home", module_database, python_workers=1)
    settings.make_home()
    with Server(settings, ServeSettings(port=0), on_log=lambda line: None) as made:
        yield made


def token(server: Server, *scopes: str, name: str = "") -> Client:
    """A client with these scopes; tests of one server may ask for the same ones."""
    assert server.tokens is not None
    name = name or f"{'-'.join(sorted(scopes))}-{len(server.tokens.entries())}"
    return Client(server.address, server.tokens.add(name, list(scopes)))


OF_NOBODY = {"beginSession": (422,), "getSession": (401,), "endSession": (401,)}
"""A session is asked for with a code in the body, and looked at with its cookie."""


def test_every_route_wants_somebody_who_may(server):
    nobody, guess = Client(server.address), Client(server.address, "noetl_guess")
    others = {scope: token(server, *sorted(SCOPES - {scope, "admin"})) for scope in sorted(SCOPES)}
    for route in GUARDED:
        path = path_of(route)
        for client in (nobody, guess):
            status, answer = client(route.method, path, BODIES.get(route.name))
            assert (status, answer["code"]) == (401, "unauthenticated"), route
        status, answer = others[route.scope](route.method, path, BODIES.get(route.name))
        assert (status, answer["code"]) == (403, "forbidden"), route
        assert answer["details"] == {"scope": route.scope}
    for route in [one for one in ROUTES if one not in GUARDED]:
        status, _ = nobody(route.method, path_of(route).replace("{link}", "x.y"))
        assert status in (OF_NOBODY.get(route.name, (200, 404))), route


def test_every_route_about_an_execution_knows_what_there_is_not(server):
    everything = token(server, "admin", "worker")
    for route in ONE:
        body = BODIES.get(route.name)
        shown = shown_command(NOBODY, local_keys(server.runtime.settings.home)) if route.of_command else {}
        status, answer = everything(route.method, path_of(route), body, **shown)
        assert (status, answer["code"]) == (404, "execution_not_found"), route
        zero = () if route.name == "putResult" else ("0",)  # permanent results are kept below 0
        for garbage in ("x", *zero, "-1", "9" * 20, "1%00", "%F0%9F%92%A3"):
            status, answer = everything(route.method, path_of(route, garbage), body, **shown)
            assert (status, answer["code"]) == (400, "invalid_execution_id"), (route, garbage)


def test_a_token_that_is_added_or_removed_counts_at_once(server, tmp_path: Path):
    reader = token(server, "read", name="removed")
    assert reader("GET", "/api/executions")[0] == 200
    server.tokens.remove("removed")
    assert reader("GET", "/api/executions")[0] == 401


def test_no_name_that_a_client_gives_a_playbook_opens_a_folder_of_this_machine(server, tmp_path: Path):
    """The command line of the machine names files; their folders may be read by their tasks."""
    (tmp_path / "key.txt").write_text("a secret of the machine")
    playbook = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: taker, path: access/taker }\nworkflow:\n"
        "  - { step: start, tool: { kind: duckdb, query: \"SELECT content FROM read_text('key.txt')\" } }\n"
    )
    author = token(server, "read", "write", "execute")
    sent = {"content": playbook, "source_name": str(tmp_path / "key.txt")}
    doors = (
        ("/api/catalog/register", {**sent, "path": "access/one"}),
        ("/api/catalog/register/batch", {"items": [{**sent, "path": "access/many"}]}),
    )
    for door, body in doors:
        status, answer = author("POST", door, body)
        assert status in (200, 201), answer
    for path in ("access/one", "access/many"):
        execution_id = author.start(path)
        author.until(execution_id, "completed", "failed")
        _, found = author("GET", f"/api/executions/{execution_id}")
        assert found["status"] == "failed", found
        assert found["error"]["code"] == "file_not_found"
        assert found["error"]["position"].startswith("key.txt:")


def test_write_alone_starts_code_as_the_threat_model_says(server):
    """By a test at the server and by a trigger: a scope of its own for either would keep nothing from an author."""
    author, text = token(server, "write"), "result = 6 * 7"
    playbook = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: own, path: own/code}\n"
        f"workflow: [{{step: start, tool: {{kind: python, code: '{text}'}}}}]\n"
    )
    status, run = author(
        "POST",
        "/api/catalog/test",
        {"content": playbook, "tests": "cases: [{name: one, expect: {status: completed}}]"},
    )
    assert (status, run["passed"]) == (200, 1), run
    assert author("POST", "/api/catalog/register", {"content": playbook})[0] == 201
    wish = {"name": "own", "path": "own/code", "source": {"type": "webhook"}}
    status, made = author("POST", "/api/triggers", wish)
    assert status == 201, made
    assert Client(server.address)("POST", made["hook"], {})[0] in (200, 202)
    assert author("POST", "/api/execute", {"path": "own/code"})[0] == 403
