"""The API an example calls (its ``service.py``, or routes of a test), with scripted faults before it."""

from __future__ import annotations

import runpy
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[3] / "playbooks" / "examples"
SERVE = runpy.run_path(str(EXAMPLES / "serve.py"))
MOST_REQUESTS = 500


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


Answer = tuple[Any, ...]
"""Status and body, and headers if there are any."""


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

    def serve(self, example: str, **wishes: Any) -> None:
        """The example's own service; ``wishes`` are arguments of its ``service``."""
        made = runpy.run_path(str(EXAMPLES / example / "service.py"))["service"](**wishes)
        self.on("/", lambda asked: made(asked.method, asked.path, asked.query, asked.headers, asked.body))

    def fail(self, path: str, *statuses: int) -> None:
        self.faults[path].extend((status, {"detail": f"scripted {status}"}) for status in statuses)

    def asked(self, prefix: str) -> list[Request]:
        return [request for request in self.requests if request.path.startswith(prefix)]

    def answer(self, method: str, path: str, query: Any, headers: Any, body: Any) -> Answer:
        request = Request(method, path, dict(query), dict(headers), body)
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
        self.server = SERVE["Server"](api.answer, 0)

    def __enter__(self) -> Api:
        self.server.__enter__()
        self.api.base = self.server.base
        return self.api

    def __exit__(self, *exc: object) -> None:
        self.server.__exit__(*exc)
