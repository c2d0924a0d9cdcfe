"""Tests of playbooks over the API of a real server: run beside it, and made from executions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.test_serve import Client
from tests.parts import parted

pytestmark = pytest.mark.postgres

PRICED = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: priced, path: tests/priced }
workload: { amounts: [3, 4], api_key: k-4711 }
workflow:
  - step: start
    loop: { in: "{{ workload.amounts }}", iterator: amount }
    tool: { kind: python, input: { amount: "{{ iter.amount }}" }, code: "result = 12 / amount" }
    next: { arcs: [{ step: ask, when: "{{ event.name == 'loop.done' }}" }] }
  - step: ask
    tool: { kind: playbook, path: tests/asked, payload: { n: "{{ start.results | length }}" } }
    next: { arcs: [{ step: end }] }
  - { step: end, tool: { kind: noop, input: { first: "{{ start.results[0] }}", asked: "{{ ask.n }}" } } }
"""
ASKED = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: asked, path: tests/asked }
workload: { n: 0 }
workflow: [{ step: start, tool: { kind: noop, input: { n: "{{ workload.n }}" } } }]
"""


@pytest.fixture
def client(database: str, tmp_path: Path) -> Iterator[Client]:
    settings = Settings(tmp_path / "home", database)
    with Server(settings, ServeSettings(port=0, open_to_all=True), on_log=lambda line: None) as server:
        yield Client(server.address)


ENDS = {"completed": {}, "failed": {"payload": {"amounts": [3, 0]}}}


@pytest.mark.parametrize("end", parted(ENDS, ["failed"]))
def test_a_test_of_an_execution_passes_until_the_playbook_changes(client: Client, end: str) -> None:
    client.register(ASKED)
    client.register(PRICED)
    execution_id = client.start("tests/priced", **ENDS[end])
    client.until(execution_id, end)
    status, made = client("GET", f"/api/executions/{execution_id}/test")
    assert (status, made["version"]) == (200, 1)
    assert "k-4711" not in made["tests"]
    assert made["notes"] == ["1 value(s) whose names mean secrets are replaced by 'made-up'"]
    status, run = client("POST", "/api/catalog/test", {"content": PRICED, "tests": made["tests"]})
    assert status == 200, run
    assert (run["passed"], run["failed"], run["stopped"]) == (1, 0, ""), run["cases"]
    assert run["cases"][0]["status"] == end
    assert {node["name"] for node in run["nodes"]} == {"start", "ask", "end", "tests/asked"}
    if end == "failed":
        assert run["covered"] < 100
        mended = PRICED.replace("12 / amount", "12 / (amount or 1)")
        _, run = client("POST", "/api/catalog/test", {"content": mended, "tests": made["tests"]})
        assert next(finding["where"] for finding in run["cases"][0]["findings"]) == "status"


@pytest.mark.full
def test_what_cannot_be_run_is_refused_at_its_place(client: Client) -> None:
    status, refused = client(
        "POST", "/api/catalog/test", {"content": "apiVersion: x\n", "tests": "cases: []"}
    )
    assert (status, refused["errors"][0]["line"]) == (422, 1)
    cases = "cases:\n  - { name: one, expect: { status: compleet } }\n"
    _, run = client("POST", "/api/catalog/test", {"content": ASKED, "tests": cases})
    assert [(one["location"], one["severity"]) for one in run["problems"]] == [
        ("playbook.test.yaml:2:36", "error")
    ]
    with_call = "cases:\n  - { name: one, expect: { result: { first: 4.0, asked: 2 } } }\n"
    _, run = client("POST", "/api/catalog/test", {"content": PRICED, "tests": with_call})
    assert "no playbook here is tests/asked" in run["cases"][0]["findings"][0]["message"]
    client.register(ASKED)
    _, run = client("POST", "/api/catalog/test", {"content": PRICED, "tests": with_call})
    assert run["passed"] == 1, run["cases"]
