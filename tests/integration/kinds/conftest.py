"""A context for tasks, a loopback HTTP server that misbehaves on demand, and a database."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psycopg
import pytest
from psycopg import sql

from noetl.adapters.embedded.server import EmbeddedServer
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential, TaskContext, TaskSettings
from tests.waiting import PATIENCE


@pytest.fixture
def make_context() -> Callable[..., TaskContext]:
    def make(
        *,
        credentials: dict[str, Credential] | None = None,
        timeout: float = PATIENCE,
        input=None,
        **settings: Any,
    ) -> TaskContext:
        def credential(name: str) -> Credential:
            if credentials is None or name not in credentials:
                raise TaskError(f"no credential {name!r}", kind="auth", code="credential_not_found")
            return credentials[name]

        return TaskContext(
            execution_id=1,
            step="step",
            task="task",
            attempt=1,
            idempotency_key="1/step/task",
            timeout=timeout,
            settings=TaskSettings(**settings),
            credential=credential,
            input=input or {},
        )

    return make


@dataclass
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    client: tuple[str, int]


@dataclass
class WebServer:
    """``answers[path]`` is called with the handler, or is ``(status, headers, body)``; ``received`` keeps the calls."""

    port: int
    answers: dict[str, Any] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def drip(self, handler: BaseHTTPRequestHandler, piece: bytes, pause: float = 0.05) -> None:
        """Send ``piece`` again and again until the client or the test hangs up ."""
        while not self.ending.wait(pause):
            handler.wfile.write(piece)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of several tests."""


@pytest.fixture
def web() -> Iterator[WebServer]:
    state = WebServer(0)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = PATIENCE

        def answer(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = self.rfile.read(length)
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.received.append(Received(self.command, self.path, headers, body, self.client_address))
            found = state.answers.get(self.path.partition("?")[0], (404, {}, b"no such page"))
            if callable(found):
                found(self)
                return
            status, extra, body = found
            self.send_response(status)
            for name, value in extra.items():
                for item in value if isinstance(value, list) else [value]:
                    self.send_header(name, item)
            if "transfer-encoding" not in {name.lower() for name in extra}:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = _Server(("127.0.0.1", 0), Handler)
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield state
    state.ending.set()
    server.shutdown()
    server.server_close()
    thread.join(PATIENCE)


@pytest.fixture
def raw_server() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """``raw_server(talk)`` gives the base URL of a server that hands each accepted socket to ``talk``."""
    listeners: list[socket.socket] = []

    def start(talk: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve_one(peer: socket.socket) -> None:
            with peer:
                peer.settimeout(PATIENCE)
                try:
                    talk(peer)
                except OSError:
                    return

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve_one, args=(peer,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.fixture(scope="session")
def dsn(postgres: EmbeddedServer) -> str:
    """Connection string of a database for the kinds."""
    name = f"kinds_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return postgres.dsn(name)
