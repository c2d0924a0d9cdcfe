"""The HTTP server of ``noetl serve`` by itself: who is being answered when it ends gets the answer; it listens where it is told to."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import socket
import threading

import pytest

from noetl.api.http.asgi import Handler, make_application
from noetl.api.http.exchange import Answer
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.table import HEADER_BYTES
from noetl.runtime.server import http_server
from noetl.runtime.server.http_server import HttpServer
from noetl.runtime.server.request_threads import RequestThreads
from tests.waiting import PATIENCE, wait_until

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = "x" * 3_000_000


def listen(handle: Handler, host: str, port: int, threads: int) -> HttpServer:
    made = RequestThreads(threads)
    return http_server.listen(make_application(handle, made), host, port, made)


def _hello(request):
    return Answer(200, text="hi")


def _everything(connection: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 20):
            found += part
    return found


def test_health_is_answered_while_every_thread_is_busy_and_requests_wait_for_one():
    go = threading.Event()

    def application(request):
        assert request.path == "/health" or go.wait(PATIENCE)
        return _hello(request)

    server = listen(application, "127.0.0.1", 0, 2)
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    busy = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) for _ in range(4)]
    try:
        for one in busy:
            one.sendall(GET)
        wait_until(lambda: server.waiting == 2, "two requests that wait for a thread")
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as asking:
                asking.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert _everything(asking).startswith(b"HTTP/1.1 200 ")
        assert server.waiting == 2
        # What follows on the same connection is an ordinary request again, and waits like the others.
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as asking:
            asking.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + GET)
            wait_until(lambda: server.waiting == 3, "the second request of the connection")
    finally:
        go.set()
        for one in busy:
            assert one.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
            one.close()
        server.close(PATIENCE)
        running.join(PATIENCE)


def test_a_thread_is_lent_for_each_request_that_waits(monkeypatch):
    """Ten wait, and the only thread is free for others. When all have their answers, few threads are left."""
    go, lent, waiting = threading.Event(), [], threading.Semaphore(0)

    def application(request):
        if request.path == "/wait":
            with server.threads.lend() as may_wait:
                lent.append(may_wait)
                waiting.release()
                assert not may_wait or go.wait(PATIENCE)
        return _hello(request)

    def ask(path: bytes) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        connection.sendall(GET.replace(b"/ ", path + b" ", 1))
        return connection

    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    server = listen(application, "127.0.0.1", 0, 1)
    threads = server.threads
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    open_ones = [ask(b"/wait") for _ in range(10)]
    try:
        assert all(waiting.acquire(timeout=PATIENCE) for _ in open_ones) and lent == [True] * 10
        assert threads.threads == 11
        with ask(b"/") as other:
            assert other.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", full)
            with ask(b"/wait") as other:
                assert other.recv(1 << 16).startswith(b"HTTP/1.1 200 "), "it is answered at once"
        assert lent[-1] is False and threads.threads == 11
        go.set()
        for one in open_ones:
            assert one.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: threads.threads == 2, "the end of the threads that nobody needs")
        with ask(b"/wait") as again:
            assert again.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    finally:
        go.set()
        for one in open_ones:
            one.close()
        server.close(PATIENCE)
        running.join(PATIENCE)
    assert not threads.threads


def test_who_is_being_answered_when_the_server_ends_gets_the_whole_answer_and_nobody_else_comes_in(caplog):
    begun, go = threading.Event(), threading.Event()

    def application(request):
        begun.set()
        assert go.wait(PATIENCE)
        return Answer(201, text=LARGE)

    server = listen(application, "127.0.0.1", 0, 1)
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as one,
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as waiting,
    ):
        one.sendall(GET)
        assert begun.wait(PATIENCE)
        waiting.sendall(GET)
        wait_until(lambda: server.waiting, "the second request")
        server.close(PATIENCE)
        go.set()
        answer = _everything(one)
        assert answer.startswith(b"HTTP/1.1 201 ") and answer.endswith(b"xxx")
        assert len(answer) > len(LARGE)
        assert _everything(waiting) == b"", "nothing of it was done, and nothing is said"
    running.join(PATIENCE)
    assert not running.is_alive() and not [one for one in caplog.records if one.exc_info]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)


def test_an_answer_that_outlasts_the_server_writes_to_no_descriptor_of_others(monkeypatch):
    """The answering thread wakes the loop, whose end has closed the descriptor for that: another file may have the number now."""
    begun, go, answered = threading.Event(), threading.Event(), threading.Event()

    def application(request):
        begun.set()
        assert go.wait(PATIENCE)
        return _hello(request)

    server = listen(application, "127.0.0.1", 0, 1)
    wake = server._loop.call_soon_threadsafe

    def wake_late(*values):
        try:
            return wake(*values)
        finally:
            if go.is_set():
                answered.set()

    monkeypatch.setattr(server._loop, "call_soon_threadsafe", wake_late)
    number = server._loop._csock.fileno()
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as one:
        one.sendall(GET)
        assert begun.wait(PATIENCE)
        server.close(0.0)
        running.join(PATIENCE)
        assert not running.is_alive()
        pipe = os.pipe()
        reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD, 600) for end in pipe)
        for end in pipe:
            os.close(end)
        os.set_blocking(reading, False)
        os.dup2(writing, number)
        try:
            go.set()
            assert answered.wait(PATIENCE)
            server.close(0.0)
            with pytest.raises(BlockingIOError):
                os.read(reading, 1)
        finally:
            for end in (reading, writing, number):
                os.close(end)


def test_a_server_is_closed_before_it_runs_and_twice():
    server = listen(_hello, "127.0.0.1", 0, 1)
    server.close(1.0)
    server.run()
    server.close(1.0)
    assert not server.threads.threads


def test_descriptors_may_be_many():
    """As beside a thousand clients that say nothing: what ``select`` cannot take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft <= 1100:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, hard), hard))
    held = [os.dup(0) for _ in range(1030)]
    server = listen(_hello, "127.0.0.1", 0, 1)
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as one:
            assert one.fileno() > 1023
            one.sendall(GET)
            assert one.recv(100).startswith(b"HTTP/1.1 200 ")
    finally:
        server.close(PATIENCE)
        running.join(PATIENCE)
        for one in held:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_name_with_two_addresses_is_listened_at_on_both(monkeypatch):
    two = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **named: two)
    server = listen(_hello, "name", 0, 1)
    monkeypatch.undo()
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    for host in ("127.0.0.1", "127.0.0.2"):
        with socket.create_connection((host, server.port), timeout=PATIENCE) as one:
            one.sendall(GET)
            assert one.recv(100).startswith(b"HTTP/1.1 200 ")
    server.close(PATIENCE)
    running.join(PATIENCE)


def test_a_host_that_is_none_is_told():
    with pytest.raises(InvalidInputError) as refused:
        listen(_hello, "256.0.0.1", 0, 1)
    assert refused.value.code == "host_unknown"


def test_requests_of_one_connection_are_read_alike_however_their_bytes_are_cut():
    """Blank lines between them, bodies by length, and chunks, after which the connection ends."""
    seen: list[tuple[str, str, bytes]] = []

    def application(request):
        seen.append((request.method, request.path, request.body))
        return _hello(request)

    post = b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n\r\n\r\nGET /"
    chunks = b"PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: u\r\n\r\n"
    whole = GET + post + b"\r\n" + GET + chunks + GET
    wanted = [("GET", "/", b""), ("POST", "/b", b"\r\n\r\nGET /"), ("GET", "/", b""), ("PUT", "/c", b"abcde")]
    server = listen(application, "127.0.0.1", 0, 1)
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    try:
        for size in (1, 2, 3, 7, 64, len(whole)):
            seen.clear()
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as one:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with contextlib.suppress(OSError):  # the server hangs up after the chunks
                    for place in range(0, len(whole), size):
                        one.sendall(whole[place : place + size])
                answers = _everything(one)
            assert seen == wanted and answers.count(b"HTTP/1.1 200 ") == 4, size
    finally:
        server.close(PATIENCE)
        running.join(PATIENCE)


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_headers_at_their_limit(over):
    server = listen(_hello, "127.0.0.1", 0, 1)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
            around = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: \r\n\r\n"
            room = HEADER_BYTES.value + over - len(around)
            connection.sendall(around.replace(b"X: ", b"X: " + b"h" * room))
            answer = _everything(connection)
        assert answer.startswith(b"HTTP/1.1 431" if over > 0 else b"HTTP/1.1 200"), answer[:200]
        if over > 0:
            problem = json.loads(answer.partition(b"\r\n\r\n")[2])
            assert problem["code"] == "headers_too_large" and problem["hint"]
            assert (problem["details"]["limit"], problem["details"]["most"]) == (
                "header_bytes",
                HEADER_BYTES.value,
            )
    finally:
        server.close(PATIENCE)
        thread.join(PATIENCE)


def sizes_under_test():
    """Limits that have a case here, for the test that every limit has one."""
    return {HEADER_BYTES}


def test_threads_of_a_burst_end_though_some_requests_go_on_waiting():
    threads = RequestThreads(2)
    threads.start()
    try:
        with contextlib.ExitStack() as waiting:
            for _ in range(3):
                assert waiting.enter_context(threads.lend())
            with contextlib.ExitStack() as burst:
                for _ in range(40):
                    assert burst.enter_context(threads.lend())
                assert threads.threads == 2 + 3 + 40
            wait_until(lambda: threads.threads == 2 * 2 + 3, "the end of the threads of the burst")
        wait_until(lambda: threads.threads == 2 * 2, "the end of all but some spare ones")
    finally:
        threads.close(1.0)
