"""Clients that are slow or many, at a real ``noetl serve``: deadlines, caps, and others being answered all the while."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from noetl.api.http.client_limits import ClientLimits
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.test_http import START, Raw, read
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.postgres

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LONG = 10 * PATIENCE
PATIENT = ClientLimits(head_seconds=LONG, body_seconds=LONG, silence=LONG)
Serve = Callable[[ClientLimits], AbstractContextManager[Raw]]


@pytest.fixture(scope="module")
def serve(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Serve:
    home: Path = tmp_path_factory.mktemp("slow") / "home"

    @contextlib.contextmanager
    def make(clients: ClientLimits) -> Iterator[Raw]:
        settings = Settings(home, module_database, python_workers=1, clients=clients)
        settings.make_home()
        logged: list[str] = []
        with Server(settings, ServeSettings(port=0, threads=2), on_log=logged.append) as made:
            yield Raw(made)
        assert not any("Traceback" in line for line in logged), logged

    return make


def trickle(connection: socket.socket, part: bytes) -> bytes:
    """Send a byte again and again, until the server hangs up; return what it said."""
    with contextlib.suppress(OSError):

        def refused() -> bool:
            connection.sendall(part)
            connection.settimeout(0.001)
            try:
                return bool(connection.recv(1, socket.MSG_PEEK))
            except TimeoutError:
                return False

        wait_until(refused, "an answer to a slow client")
    connection.settimeout(PATIENCE)
    return read(connection)


SLOW = {
    "headers that trickle": (b"GET /health HTTP/1.1\r\nHost: x\r\nX: ", b"a"),
    "headers that stop": (b"GET /health HTTP/1.1\r\nHo", b""),
    "a blank line, then nothing": (b"\r\n", b""),
    "a body that trickles": (START + b"Host: x\r\nContent-Length: 100000\r\n\r\n", b"x"),
    "a body that stops": (START + b"Host: x\r\nContent-Length: 100\r\n\r\n{", b""),
    "chunks that trickle": (START + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_request_has_a_deadline(serve, name):
    begun, part = SLOW[name]
    limits = replace(PATIENT, head_seconds=0.5, body_seconds=0.5, body_rate=1_000_000)
    with serve(limits) as raw, raw.connect() as connection:
        connection.sendall(begun)
        told = trickle(connection, part) if part else read(connection)
        head, _, body = told.partition(b"\r\n\r\n")
        assert b" 408 " in head.splitlines()[0] and b"application/problem+json" in head, told
        assert json.loads(body)["code"] == "request_timeout"
        assert raw(HEALTH)[0] == 200


def test_an_idle_connection_and_an_unread_answer_are_closed(serve):
    with serve(replace(PATIENT, silence=0.5)) as raw, raw.connect() as idle, raw.connect() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        assert read(idle) == b"", "a connection that never said a word is closed without one"
        wait_until(lambda: not raw.server._http._channels(), "the end of what nobody reads")
        assert raw(HEALTH)[0] == 200


def test_others_are_answered_beside_slow_and_idle_connections(serve):
    """Far more than the two threads of the server."""
    with ExitStack() as held, serve(PATIENT) as raw:
        for number in range(60):
            one = held.enter_context(raw.connect())
            one.sendall(
                (b"", b"GET /health HTTP/1.1\r\nHo", START + b"Host: x\r\nContent-Length: 9\r\n\r\n{")[
                    number % 3
                ]
            )
        assert raw(HEALTH)[0] == 200
        assert raw(b"GET /api/executions HTTP/1.1\r\n" + raw.head())[0] == 200


def test_the_longest_idle_connection_makes_room_for_a_new_one(serve):
    with ExitStack() as held, serve(replace(PATIENT, connections=20)) as raw:
        first, *_ = [held.enter_context(raw.connect()) for _ in range(20)]
        wait_until(lambda: len(raw.server._http._channels()) == 20, "twenty connections")
        assert raw(HEALTH)[0] == 200
        assert read(first) == b""


def unread(raw: Raw) -> int:
    """Count the connections whose client leaves an answer unread."""
    return sum(one.unsent > 0 for one in raw.server._http._channels())


def test_streams_and_unread_answers_make_room_for_a_new_connection(serve):
    """One holder of a token for reading, and one client without any, keep nobody from the server."""
    with ExitStack() as held, serve(replace(PATIENT, connections=5)) as raw:
        streams = [held.enter_context(raw.connect()) for _ in range(5)]
        for one in streams:
            one.sendall(b"GET /api/stream?topics=executions HTTP/1.1\r\n" + raw.head())
            assert one.recv(64).startswith(b"HTTP/1.1 200 ")
        assert raw(HEALTH)[0] == 200
        assert b": changes" in read(streams[0]), "the longest stream has ended"
        for number in range(5):
            one = held.enter_context(raw.connect())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
            wait_until(lambda most=number: unread(raw) > most, "an unread answer in the place of a stream")
        assert raw(HEALTH)[0] == 200
        assert unread(raw) == 4


def test_another_machine_has_a_cap_of_its_own(serve, monkeypatch):
    """Its address is said to be another's, because a test has one machine."""
    monkeypatch.setattr("noetl.runtime.server.http_server.peer_of", lambda address: "192.0.2.1")
    with ExitStack() as held, serve(replace(PATIENT, per_peer=5)) as raw:
        five = [held.enter_context(raw.connect()) for _ in range(5)]
        wait_until(lambda: len(raw.server._http._channels()) == 5, "five connections")
        with raw.connect() as sixth:
            head, _, body = read(sixth).partition(b"\r\n\r\n")
        assert b" 429 " in head.splitlines()[0] and json.loads(body)["code"] == "too_many_connections"
        five[0].sendall(HEALTH)
        assert b" 200 " in read(five[0]).splitlines()[0]
        wait_until(lambda: len(raw.server._http._channels()) == 4, "a place")
        assert raw(HEALTH)[0] == 200


def test_a_server_ends_beside_slow_clients(serve):
    with ExitStack() as held:
        with serve(PATIENT) as raw:
            slow = [held.enter_context(raw.connect()) for _ in range(20)]
            for number, one in enumerate(slow):
                one.sendall(
                    b"GET /health HT" if number % 2 else START + b"Host: x\r\nContent-Length: 9\r\n\r\n{"
                )
            wait_until(lambda: len(raw.server._http._channels()) == 20, "twenty connections")
        assert not raw.server._thread.is_alive()
        assert {read(one) for one in slow} == {b""}


@pytest.mark.full
def test_sigterm_ends_a_server_beside_slow_clients(module_database, tmp_path):
    """As `noetl serve` runs: a process, which a service manager ends."""
    environ = {**os.environ, "NOETL_DATABASE_URL": module_database, "NOETL_HOME": str(tmp_path / "home")}
    words = [
        sys.executable,
        "-c",
        "import sys; from noetl.cli.main import main; sys.exit(main())",
        "serve",
        "--port",
        "0",
        "--json",
    ]
    with (
        subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True) as process,
        ExitStack() as held,
    ):
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            host, _, port = address.removeprefix("http://").rpartition(":")

            def connect(sent: bytes) -> socket.socket:
                one = held.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE))
                one.sendall(sent)
                return one

            slow = [connect(b"GET /health HT") for _ in range(20)]
            slow += [connect(START + b"Host: x\r\nContent-Length: 9\r\n\r\n{") for _ in range(20)]
            # More answers than buffers hold, of which nothing is read.
            unread = [connect(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 100) for _ in range(20)]
            assert b" 200 " in read(connect(HEALTH)).splitlines()[0]
            process.terminate()
            assert process.wait(PATIENCE) in (0, 130, -signal.SIGTERM, 143)
            assert {read(one) for one in slow} == {b""}
            assert len(unread) == 20
        finally:
            process.kill()
