"""Clients that read large answers slowly: they keep threads while nobody else needs them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from noetl.api.http.client_limits import ClientLimits
from noetl.runtime.server.http_server import HttpServer, listen
from tests.waiting import PATIENCE, wait_until

THREADS = 2
LONG = 10 * PATIENCE
PIECE = bytes(65536)
LIMITS = ClientLimits(head_seconds=LONG, body_seconds=0.2, body_rate=1, silence=LONG, answer_rate=10**9)


def application(environ, start_response):
    """``/large`` never ends."""
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return iter(lambda: PIECE, b"") if environ["PATH_INFO"] == "/large" else [b"small"]


@pytest.fixture
def server() -> Iterator[HttpServer]:
    made = listen(application, "127.0.0.1", 0, THREADS, LIMITS)
    running = threading.Thread(target=made.run)
    running.start()
    yield made
    for one in made._channels():
        one.will_close = True
    made.close(PATIENCE)
    running.join(PATIENCE)


def ask(held: ExitStack, server: HttpServer, path: str) -> socket.socket:
    made = socket.socket()
    held.enter_context(made)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", int(server.port)))
    made.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    return made


def answered(connection: socket.socket, readers: list[socket.socket]) -> bool:
    """Whether something came, while each reader has read a little: none of them is silent."""
    for one in readers:
        one.settimeout(0.001)
        try:
            one.recv(16)
        except OSError:
            continue
    connection.settimeout(0.01)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False


def test_slow_readers_give_their_threads_back_to_those_that_wait(server):
    with ExitStack() as held:
        readers = [ask(held, server, "/large") for _ in range(THREADS)]
        wait_until(
            lambda: [bool(one.reader(LONG)) for one in server._channels()] == [True] * THREADS,
            "all threads to be kept",
        )
        small = ask(held, server, "/small")
        wait_until(lambda: answered(small, readers), "an answer beside slow readers")
        assert small.recv(65536).startswith(b"HTTP/1.1 200 OK")
