"""``noetl serve`` at the level of HTTP: clients that are slow, wrong or hostile get a problem, and hold nobody up."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.api.deps import MAX_BODY
from noetl.runtime.http_server import HEADERS, TAKEN
from noetl.runtime.serving import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

START = b"POST /api/executions HTTP/1.1\r\n"
PROBLEM = "application/problem+json"


class Raw:
    """Bytes to the server, and what it says until it hangs up."""

    def __init__(self, server: Server) -> None:
        assert server.tokens is not None
        host, _, port = server.address.removeprefix("http://").rpartition(":")
        self.place = (host, int(port))
        self.token = server.tokens.add("raw", ["admin"])

    def connect(self) -> socket.socket:
        return socket.create_connection(self.place, timeout=PATIENCE)

    def head(self, *lines: bytes) -> bytes:
        fixed = f"Host: x\r\nAuthorization: Bearer {self.token}\r\nConnection: close\r\n".encode()
        return fixed + b"".join(line + b"\r\n" for line in lines) + b"\r\n"

    def __call__(self, sent: bytes) -> tuple[int, dict[str, str], bytes]:
        with self.connect() as connection:
            connection.sendall(sent)
            told = read(connection)
        head, _, body = told.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        return int(lines[0].split(" ")[1]), headers, body


def read(connection: socket.socket) -> bytes:
    found = b""
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


@pytest.fixture(scope="module")
def server(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home: Path = tmp_path_factory.mktemp("http") / "home"
    settings = Settings(home, module_database, python_workers=1)
    settings.make_home()
    logged: list[str] = []
    with Server(settings, ServeSettings(port=0, threads=4), on_log=logged.append) as made:
        yield made
    assert not any("Traceback" in line for line in logged), logged


@pytest.fixture(scope="module")
def raw(server: Server) -> Raw:
    return Raw(server)


CHUNK = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
REFUSED = {
    "garbage": (b"\x00\x01 nonsense\r\n\r\n", 400, "bad_request"),
    "a method in small letters": (b"get /health HTTP/1.1\r\n", 400, "bad_request"),
    "a path that is not ASCII": (b"GET /api/catalog/\xff HTTP/1.1\r\n", 400, "bad_request"),
    "headers without end": (b"GET /health HTTP/1.1\r\nX: " + b"a" * HEADERS + b"\r\n", 431, "headers_too_large"),
    "a body of minus five bytes": (START + b"Content-Length: -5\r\n", 400, "bad_request"),
    "two lengths": (START + b"Content-Length: 2\r\nContent-Length: 3\r\n", 400, "bad_request"),
    "a chunk of no size": (START + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}", 400, "bad_request"),
    "an unknown transfer": (START + b"Transfer-Encoding: gzip\r\n", 501, "not_implemented"),
    "a body that is announced far too large": (START + b"Content-Length: %d\r\n" % (TAKEN + 1), 413, "body_too_large"),
    "a method nobody knows": (b"BREW /api/executions HTTP/1.1\r\n", 405, "method_not_allowed"),
    "a trace": (b"TRACE /health HTTP/1.1\r\n", 405, "method_not_allowed"),
    "a line break in a path": (b"GET /api/%0d%0aX-Evil:%201 HTTP/1.1\r\n", 404, "route_not_found"),
    "broken percents": (b"GET /api/catalog/%zz%ff HTTP/1.1\r\n", 404, "playbook_not_found"),
    "a parameter twice": (b"GET /api/executions?limit=5&limit=6 HTTP/1.1\r\n", 400, "invalid_parameter"),
    "a parameter that is not UTF-8": (b"GET /api/executions?status=%ff HTTP/1.1\r\n", 400, "invalid_parameter"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_a_problem(raw, name):
    sent, status, code = REFUSED[name]
    found, headers, body = raw(sent + raw.head())
    assert (found, headers["content-type"]) == (status, PROBLEM), (found, headers, body)
    told = json.loads(body)
    assert (told["status"], told["code"]) == (status, code)
    assert told["request_id"] == headers["x-request-id"]
    assert ("allow" in headers) == (status == 405) and "x-evil" not in headers
    assert b"Traceback" not in body and b".py" not in body


BODIES = {
    "too large by a byte": (b"", b"x" * (MAX_BODY + 1), 413, "body_too_large"),
    "compressed": (b"Content-Encoding: gzip\r\n", b"\x1f\x8b\x08\x00", 415, "content_encoding_unsupported"),
    "Latin-1": (
        b"Content-Type: application/json; charset=latin-1\r\n",
        '{"path":"é"}'.encode("latin-1"),
        400,
        "body_not_json",
    ),
    "XML": (b"Content-Type: text/xml\r\n", b"<path/>", 400, "body_not_json"),
    "nothing": (b"", b"", 422, "body_invalid"),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_cannot_be(raw, name):
    head, body, status, code = BODIES[name]
    sent = START + head + b"Content-Length: %d\r\n" % len(body) + raw.head() + body
    found, headers, told = raw(sent)
    assert (found, json.loads(told)["code"], headers["content-type"]) == (status, code, PROBLEM)


def test_chunks_are_a_body_and_too_many_are_told_so(raw):
    chunked = START + raw.head(b"Transfer-Encoding: chunked")
    assert raw(chunked + b'11\r\n{"path":"no/such"\r\n1\r\n}\r\n0\r\n\r\n')[0] == 404
    found, _, body = raw(chunked + CHUNK * 6 + b"0\r\n\r\n")
    assert (found, json.loads(body)["code"]) == (413, "body_too_large")


def test_head_and_options_and_whole_addresses(raw):
    _, whole, body = raw(b"GET /api/executions HTTP/1.1\r\n" + raw.head())
    found, headers, nothing = raw(b"HEAD /api/executions HTTP/1.1\r\n" + raw.head())
    assert (found, nothing, headers["content-length"]) == (200, b"", whole["content-length"])
    assert int(whole["content-length"]) == len(body)
    found, headers, nothing = raw(
        b"OPTIONS /api/executions HTTP/1.1\r\n" + raw.head(b"Origin: https://other.example")
    )
    assert (found, nothing, headers["allow"]) == (204, b"", "GET, POST, HEAD, OPTIONS")
    assert not any(name.startswith("access-control") for name in headers), "pages of other sites get nothing"
    assert raw(b"GET http://x/health HTTP/1.1\r\n" + raw.head())[0] == 200


def test_a_connection_is_kept_and_requests_on_it_are_answered_in_order(raw):
    with raw.connect() as connection:
        connection.sendall(
            b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 3 + b"GET /nothing HTTP/1.1\r\n" + raw.head()
        )
        told = read(connection)
    assert [part[:3] for part in told.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"200", b"404"]


def test_slow_clients_hold_nobody_up(raw):
    """More of them than the server has threads: some trickle their headers, some their bodies, some do not read what they asked for."""
    slow = [raw.connect() for _ in range(60)]
    try:
        for number, connection in enumerate(slow):
            if number % 3 == 0:
                connection.sendall(b"GET /health HTTP/1.1\r\nHo")
            elif number % 3 == 1:
                connection.sendall(START + b"Content-Length: 100\r\n" + raw.head() + b'{"pa')
            else:
                connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        assert raw(b"GET /api/executions HTTP/1.1\r\n" + raw.head())[0] == 200
    finally:
        for connection in slow:
            connection.close()
