"""The HTTP server of ``noetl serve`` by itself: who is being answered when it ends gets the answer; it listens where it is told to."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import socket
import threading

import pytest
from waitress.server import create_server

from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.table import HEADER_BYTES
from noetl.runtime.server.http_server import Channel, HttpServer, listen
from tests.waiting import PATIENCE, wait_until

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"x" * 3_000_000


def _hello(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"hi"]


def _everything(connection: socket.socket) -> bytes:
    found = b""
    while part := connection.recv(1 << 20):
        found += part
    return found


def test_health_is_answered_while_every_thread_is_busy_and_requests_wait_for_one():
    go = threading.Event()

    def application(environ, start_response):
        assert environ["PATH_INFO"] == "/health" or go.wait(PATIENCE)
        return _hello(environ, start_response)

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

    def application(environ, start_response):
        if environ["PATH_INFO"] == "/wait":
            with server.lent.lend() as may_wait:
                lent.append(may_wait)
                waiting.release()
                assert not may_wait or go.wait(PATIENCE)
        return _hello(environ, start_response)

    def ask(path: bytes) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        connection.sendall(GET.replace(b"/ ", path + b" ", 1))
        return connection

    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    server = listen(application, "127.0.0.1", 0, 1)
    threads = server._made.task_dispatcher.threads
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    open_ones = [ask(b"/wait") for _ in range(10)]
    try:
        assert all(waiting.acquire(timeout=PATIENCE) for _ in open_ones) and lent == [True] * 10
        assert len(threads) == 11
        with ask(b"/") as other:
            assert other.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", full)
            with ask(b"/wait") as other:
                assert other.recv(1 << 16).startswith(b"HTTP/1.1 200 "), "it is answered at once"
        assert lent[-1] is False and len(threads) == 11
        go.set()
        for one in open_ones:
            assert one.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: len(threads) == 2, "the end of the threads that nobody needs")
        with ask(b"/wait") as again:
            assert again.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    finally:
        go.set()
        for one in open_ones:
            one.close()
        server.close(PATIENCE)
        running.join(PATIENCE)
    assert not threads


def test_who_is_being_answered_when_the_server_ends_gets_the_whole_answer_and_nobody_else_comes_in(caplog):
    begun, go = threading.Event(), threading.Event()

    def application(environ, start_response):
        begun.set()
        assert go.wait(PATIENCE)
        start_response("201 Created", [("Content-Length", str(len(LARGE)))])
        return [LARGE]

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
        closing = threading.Thread(target=server.close, args=(PATIENCE,))
        closing.start()
        go.set()
        answer = _everything(one)
        assert answer.startswith(b"HTTP/1.1 201 ") and answer.endswith(LARGE[-10:])
        assert len(answer) > len(LARGE)
        assert _everything(waiting) == b"", "nothing of it was done, and nothing is said"
    closing.join(PATIENCE)
    running.join(PATIENCE)
    assert not running.is_alive() and not [one for one in caplog.records if one.exc_info]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)


def test_an_answer_that_outlasts_the_server_writes_to_no_descriptor_of_others(monkeypatch):
    """The answering thread wakes the server, whose end has closed the descriptor for that: another file may have the number now."""
    begun, go, answered = threading.Event(), threading.Event(), threading.Event()

    def application(environ, start_response):
        begun.set()
        assert go.wait(PATIENCE)
        start_response("200 OK", [("Content-Length", "2")])
        return [b"hi"]

    serve = Channel.service

    def service(channel):
        try:
            serve(channel)
        finally:
            answered.set()

    monkeypatch.setattr(Channel, "service", service)
    server = listen(application, "127.0.0.1", 0, 1)
    triggers = [one.trigger.trigger for one in server._listeners]
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as one:
        one.sendall(GET)
        assert begun.wait(PATIENCE)
        server.close(0.0)
        running.join(PATIENCE)
        assert not running.is_alive()
        pipe = os.pipe()
        reading, writing = (fcntl.fcntl(number, fcntl.F_DUPFD, 600) for number in pipe)
        for number in pipe:
            os.close(number)
        os.set_blocking(reading, False)
        for number in triggers:
            os.dup2(writing, number)
        try:
            go.set()
            assert answered.wait(PATIENCE)
            server.close(0.0)
            with pytest.raises(BlockingIOError):
                os.read(reading, 1)
        finally:
            for number in (reading, writing, *triggers):
                os.close(number)


def test_a_server_that_ends_before_it_is_woken_is_closed_without_an_error():
    """Its thread may see the end that ``close`` has declared, and close its descriptors, before ``close`` wakes it."""
    server = listen(_hello, "127.0.0.1", 0, 1)
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    listener = server._listeners[0]
    wake = listener.pull_trigger

    def wake_late() -> None:
        wake()
        running.join(PATIENCE)
        assert not running.is_alive()
        wake()

    listener.pull_trigger = wake_late
    server.close(1.0)


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


def test_a_name_with_two_addresses_is_listened_at_on_both_in_the_same_words():
    sockets: dict = {}
    made = create_server(lambda *_: [], map=sockets, listen="127.0.0.1:0 127.0.0.1:0", threads=1)
    server = HttpServer(made, sockets)
    kinds = [one.channel_class for one in sockets.values() if hasattr(one, "channel_class")]
    server.close(1.0)
    server.run()
    assert kinds == [Channel, Channel] and server.port and not sockets


def test_a_host_that_is_none_is_told():
    with pytest.raises(InvalidInputError) as refused:
        listen(lambda *_: [], "256.0.0.1", 0, 1)
    assert refused.value.code == "host_unknown"


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
        assert answer.startswith(b"HTTP/1.0 431" if over > 0 else b"HTTP/1.1 200"), answer[:200]
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
