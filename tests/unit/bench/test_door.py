"""A client of the benchmarks asks ``noetl serve`` to answer with the end where it can, and polls where it cannot."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.bench.speed.door import NoetlDoor, visit


@contextmanager
def api(waits: bool, statuses: list[str]) -> Iterator[tuple[str, list[str]]]:
    """An API that gives an execution these statuses, one after the other; its address, and what it was asked."""
    asked: list[str] = []
    parameters = [{"name": "wait", "in": "query"}] if waits else []

    class Api(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/openapi.json":
                self.give(200, {"paths": {"/api/executions": {"post": {"parameters": parameters}}}})
                return
            asked.append(f"GET {self.path}")
            self.give(200, {"status": statuses.pop(0)})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(f"POST {self.path}")
            self.give(201, {"execution_id": "7", **({"status": statuses.pop(0)} if waits else {})})

        def give(self, status: int, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


LOOK = "GET /api/executions/7/status"


@pytest.mark.parametrize(
    ("waits", "statuses", "asked"),
    [
        (True, ["completed"], ["POST /api/executions?wait=25"]),
        (True, ["running", "running", "completed"], ["POST /api/executions?wait=25", LOOK, LOOK]),
        (False, ["running", "completed"], ["POST /api/executions", LOOK, LOOK]),
    ],
    ids=["answered with the end", "not ended in time", "polled"],
)
def test_a_client_waits_for_the_end_of_an_execution(waits, statuses, asked):
    with api(waits, statuses) as (address, seen):
        door = NoetlDoor(address, "")
        found = visit(door.address, "", door.asking("bench/three"), 1, 1)
    assert seen == asked
    assert len(found.milliseconds) == 1 and found.at(0.99) > 0


def test_an_execution_that_fails_is_no_figure():
    with api(False, ["failed"]) as (address, _), pytest.raises(ExceptionGroup) as told:
        door = NoetlDoor(address, "")
        visit(door.address, "", door.asking("bench/three"), 1, 1)
    assert "execution 7 of bench/three ended as failed" in str(told.value.exceptions[0])
