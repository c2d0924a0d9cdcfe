"""A small HTTP API on the loopback address, with scripted faults, for playbooks that call one."""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

MOST_REQUESTS = 500


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


Answer = tuple[int, Any]


@dataclass
class Api:
    """``on`` says what a path prefix answers, ``fail`` what its next requests answer instead."""

    routes: dict[str, Callable[[Request], Answer]] = field(default_factory=dict)
    faults: dict[str, deque[Answer]] = field(default_factory=lambda: defaultdict(deque))
    requests: list[Request] = field(default_factory=list)
    base: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def on(self, prefix: str, answer: Callable[[Request], Answer]) -> None:
        self.routes[prefix] = answer

    def fail(self, path: str, *statuses: int) -> None:
        self.faults[path].extend((status, {"detail": f"scripted {status}"}) for status in statuses)

    def asked(self, prefix: str) -> list[Request]:
        return [request for request in self.requests if request.path.startswith(prefix)]

    def answer(self, request: Request) -> Answer:
        with self.lock:
            self.requests.append(request)
            if len(self.requests) > MOST_REQUESTS:
                return 500, {"detail": "too many requests for a test"}
            if self.faults[request.path]:
                return self.faults[request.path].popleft()
            for prefix, route in self.routes.items():
                if request.path.startswith(prefix):
                    return route(request)
        return 404, {"detail": f"no route {request.path}"}


class ApiServer:
    """Context manager: serves ``api`` on a free port; ``api.base`` is its address."""

    def __init__(self, api: Api) -> None:
        self.api = api

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                parts = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                raw = self.rfile.read(length)
                request = Request(
                    self.command,
                    parts.path,
                    {name: values[0] for name, values in parse_qs(parts.query).items()},
                    {name.lower(): value for name, value in self.headers.items()},
                    json.loads(raw) if raw else None,
                )
                status, body = api.answer(request)
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_any  # noqa: N815

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    def __enter__(self) -> Api:
        self.api.base = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread.start()
        return self.api

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(timeout=5)


def paged(rows: list[Any], size: int) -> Callable[[Request], Answer]:
    """``?page=n`` of ``rows``."""

    def answer(request: Request) -> Answer:
        page = int(request.query.get("page", "1"))
        count = int(request.query.get("size", size))
        part = rows[(page - 1) * count : page * count]
        return 200, {"rows": part, "paging": {"more": page * count < len(rows)}}

    return answer
