"""Clients that read large answers slowly, or not at all, hold no thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest

from noetl.api.http.asgi import make_application
from noetl.api.http.client_limits import ClientLimits
from noetl.api.http.exchange import BYTES, Answer, Request
from noetl.runtime.server.http_server import HttpServer, listen
from noetl.runtime.server.request_threads import RequestThreads
from tests.waiting import PATIENCE, wait_until

LONG = 10 * PATIENCE
PIECE = bytes(65536)
PATIENT = ClientLimits(head_seconds=LONG, body_seconds=LONG, silence=LONG)


class Pieces:
    """An answer that never ends."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return PIECE

    def close(self) -> None:
        self.closed.set()


class Served:
    def __init__(self, limits: ClientLimits) -> None:
        self.made: list[Pieces] = []
        threads = RequestThreads(1)
        application = make_application(self.handle, threads)
        self.server: HttpServer = listen(application, "127.0.0.1", 0, threads, limits)
        self.running = threading.Thread(target=self.server.run)
        self.running.start()

    def handle(self, request: Request) -> Answer:
        if request.path != "/large":
            return Answer(200, text="small")
        self.made.append(Pieces())
        return Answer(200, content=self.made[-1], content_type=BYTES)

    def ask(self, held: ExitStack, path: str) -> socket.socket:
        made = held.enter_context(socket.socket())
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect(("127.0.0.1", self.server.port))
        made.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        made.settimeout(PATIENCE)
        return made

    def close(self) -> None:
        self.server.close(0.0)
        self.running.join(PATIENCE)


@pytest.fixture
def serve() -> Iterator:
    with ExitStack() as stack:

        def make(limits: ClientLimits) -> Served:
            made = Served(limits)
            stack.callback(made.close)
            return made

        yield make


def test_the_only_thread_serves_others_while_many_leave_their_answers_unread(serve):
    served = serve(PATIENT)
    with ExitStack() as held:
        for _ in range(10):
            served.ask(held, "/large")
        wait_until(lambda: sum(one.unsent > 0 for one in served.server._channels()) == 10, "full buffers")
        assert served.ask(held, "/small").recv(65536).startswith(b"HTTP/1.1 200 OK")
    wait_until(lambda: all(one.closed.is_set() for one in served.made), "the end of what was read for them")


@pytest.mark.parametrize("limits", [replace(PATIENT, silence=0.3), replace(PATIENT, body_seconds=0.3)])
def test_a_client_that_leaves_its_answer_unread_or_reads_too_slowly_is_cut_off(serve, limits):
    served = serve(replace(limits, body_rate=10**9))
    with ExitStack() as held:
        client = served.ask(held, "/large")
        wait_until(lambda: served.made and served.made[0].closed.is_set(), "the end of the answer")
        with suppress(ConnectionResetError):
            while client.recv(65536):
                pass
    wait_until(lambda: not served.server._channels(), "the end of the connection")
