"""Requests that would stop the service, sent to a real server at once: it answers ``/health`` meanwhile, and ends when it is told to."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forked import Forked
from tests.integration.api.test_serve import GATED, Client
from tests.parts import repeated
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

AT_ONCE = 20
"""More than the server has threads."""
PAUSE = 0.1
"""Seconds between two looks at the health of the server, which would be most of the work."""
ROUNDS = repeated(gate=1, full=20)
"""Of each attack: in three there are more requests than are sent at once."""
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
PATTERN = (
    HEAD
    + """metadata: { name: pattern, path: demo/pattern }
input: { properties: { x: { pattern: "^(a+)+$" } } }
workflow: [ { step: start } ]
"""
)
LATTICE = (
    HEAD
    + """metadata: { name: lattice, path: demo/lattice }
input:
  $ref: "#/$defs/a"
  $defs:
    a: { anyOf: [ { properties: { a: { $ref: "#/$defs/a" } } }, { properties: { a: { $ref: "#/$defs/a" } } } ], minProperties: 2 }
workflow: [ { step: start } ]
"""
)
REQUIRES = f"{HEAD}metadata: {{ name: r, path: demo/r }}\nexecutor: {{ spec: {{ requirements: [ 'a{' ' * 10_000}!' ] }} }}\n"
REQUIRES += "workflow: [ { step: start } ]\n"
"""Few enough bytes to need no place of a long request; a search with three gaps took the cube of its spaces."""
CODE = f"{HEAD}metadata: {{ name: c, path: demo/c }}\nworkflow:\n  - step: start\n"
CODE += f"    tool: {{ kind: python, code: 'x = {{{{ workload.{' ' * 200_000}' }}\n"
LOOP = "{% for a in range(100000) %}{% set b = a * a %}{% endfor %}"


def nested(levels: int) -> dict[str, Any]:
    return {"a": nested(levels - 1)} if levels else {}


def steps(count: int) -> str:
    lines = [
        f"  - {{ step: s{n}, next: [ s{(n + 1) % count}, s{(7 * n + 3) % count} ] }}\n" for n in range(count)
    ]
    return f"{HEAD}metadata: {{ name: large, path: demo/large }}\nworkflow:\n{''.join(lines)}"


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[tuple[Forked, Client]]:
    environ = {**os.environ, "NOETL_DATABASE_URL": database, "NOETL_HOME": str(tmp_path / "home")}
    process = Forked(
        "noetl.cli.main", argv=("serve", "--port", "0", "--json"), env=environ, errors=tmp_path / "stderr"
    )
    try:
        address = json.loads(process.stdout.readline())["address"]
        yield process, Client(address, (tmp_path / "home" / "token").read_text().strip())
    finally:
        process.kill()
        process.wait(PATIENCE)


def attacks(client: Client) -> list[tuple[str, str, Any]]:
    client.register(GATED)
    execution_id = client.start("demo/gated")
    client.until(execution_id, "waiting", "running", "paused")
    client.register(PATTERN)
    client.register(LATTICE)
    return [
        ("POST", "/api/executions", {"path": "demo/pattern", "payload": {"x": "a" * 50 + "!"}}),
        ("POST", "/api/executions", {"path": "demo/lattice", "payload": nested(60)}),
        ("POST", "/api/context/render", {"execution_id": execution_id, "template": [LOOP] * 50}),
        ("POST", "/api/catalog/register", {"content": steps(3000)}),
        ("POST", "/api/catalog/register", {"content": " " * 1_000_000 + "!"}),
        ("POST", "/api/catalog/register", {"content": REQUIRES}),
        ("POST", "/api/catalog/register", {"content": CODE}),
    ]


def test_no_request_stops_the_service(server):
    process, client = server
    sent = attacks(client) * ROUNDS
    answers: list[tuple[int, str]] = []
    left = iter(sent)
    lock = threading.Lock()

    def send() -> None:
        while True:
            with lock:
                found = next(left, None)
            if found is None:
                return
            method, path, body = found
            status, answer = client(method, path, body)
            answers.append((status, answer.get("code", "")))

    threads = [threading.Thread(target=send, daemon=True) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    asked = 0
    while running := [thread for thread in threads if thread.is_alive()]:
        assert Client(client.address)("GET", "/health")[0] == 200
        asked += 1
        running[0].join(PAUSE)
    assert asked
    counted = Counter(answers)
    expected = {
        (422, "payload_invalid"),
        (422, "schema_limit"),
        (422, "invalid_playbook"),
        (200, ""),
        (429, "too_much_computing"),
    }
    assert set(counted) <= expected, counted
    assert counted[422, "payload_invalid"] == ROUNDS, "a pattern takes no time"
    assert len(answers) == len(sent)

    begun = threading.Event()

    def attack_again() -> None:
        with contextlib.suppress(OSError):
            for method, path, body in sent[1:3]:
                begun.set()
                client(method, path, body)

    last = threading.Thread(target=attack_again, daemon=True)
    last.start()
    assert begun.wait(PATIENCE)
    process.terminate()
    assert process.wait(PATIENCE) in (0, -signal.SIGTERM, 130, 143)
