"""``noetl serve`` at the level of HTTP: clients that are slow, wrong or hostile get a problem, and hold nobody up."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from noetl.api.deps import MAX_BODY
from noetl.runtime.server.http_connection import HEADERS, TAKEN
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

START = b"POST /api/executions HTTP/1.1\r\n"
PROBLEM = "application/problem+json"
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: x, path: demo/x }
workflow: [{ step: start, tool: { kind: noop } }]
"""


class Raw:
    """Bytes to the server, and what it says until it hangs up."""

    def __init__(self, server: Server) -> None:
        assert server.tokens is not None
        host, _, port = server.address.removeprefix("http://").rpartition(":")
        self.place = (host, int(port))
        self.server, self.token = server, server.tokens.add(f"raw-{secrets.token_hex(4)}", ["admin"])

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
    "a chunk of no size": (START + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}", 400, "bad_request"),
    "a chunk far too large": (START + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"F" * 60 + b"\r\n{}", 400, "bad_request"),
    "an unknown transfer": (START + b"Transfer-Encoding: gzip\r\n", 501, "not_implemented"),
    "a body that is announced far too large": (START + b"Content-Length: %d\r\n" % (TAKEN + 1), 413, "body_too_large"),
    "a length of 5,000 digits": (START + b"Content-Length: " + b"9" * 5000 + b"\r\n", 400, "bad_request"),
    "a length with a sign": (START + b"Content-Length: +2\r\n", 400, "bad_request"),
    "the same length twice": (START + b"Content-Length: 2\r\nContent-Length: 2\r\n", 400, "bad_request"),
    "two lengths in one header": (START + b"Content-Length: 2, 2\r\n", 400, "bad_request"),
    "a length and chunks": (START + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400, "bad_request"),
    "chunks, then a length": (START + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", 400, "bad_request"),
    "chunks twice": (START + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400, "bad_request"),
    "chunks in chunks": (START + b"Transfer-Encoding: chunked, chunked\r\n", 501, "not_implemented"),
    "chunks in HTTP/1.0": (b"POST /api/executions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", 400, "bad_request"),
    "a space before a colon": (START + b"Transfer-Encoding : chunked\r\n", 400, "bad_request"),
    "a chunk's line without end": (START + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n2;" + b"a" * 2000, 400, "bad_request"),
    "a trailer without end": (START + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"a" * 9000, 400, "bad_request"),
    "two hosts": (b"GET /health HTTP/1.1\r\nHost: y\r\n", 400, "bad_request"),
    "no host": (b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", 400, "bad_request"),
    "a host that is none": (b"GET /health HTTP/1.1\r\nConnection: close\r\nHost: a/b\r\n\r\n", 400, "bad_request"),
    "HTTP/9.9": (b"GET /health HTTP/9.9\r\n", 505, "http_version_not_supported"),
    "HTTP/2.0": (b"GET /health HTTP/2.0\r\n", 505, "http_version_not_supported"),
    "no version": (b"GET /health\r\n", 400, "bad_request"),
    "a header in two lines": (b"GET /health HTTP/1.1\r\nX: a\r\n b\r\n", 400, "bad_request"),
    "a line that ends with LF": (b"GET /health HTTP/1.1\r\nX: a\nY: b\r\n", 400, "bad_request"),
    "lines that end with LF": (b"GET /health HTTP/1.1\nHost: x\n\n", 400, "bad_request"),
    "a CR in a line": (b"GET /health HTTP/1.1\r\nX: a\rY: b\r\n", 400, "bad_request"),
    "a NUL in a header": (b"GET /health HTTP/1.1\r\nX: a\x00b\r\n", 400, "bad_request"),
    "an escape in a header": (b"GET /health HTTP/1.1\r\nX: \x1b[2J\r\n", 400, "bad_request"),
    "a NUL in a header's name": (b"GET /health HTTP/1.1\r\nX\x00: a\r\n", 400, "bad_request"),
    "TLS": (b"\x16\x03\x01\x02\x00", 400, "bad_request"),
    "blank lines": (b"\r\n\r\n", 400, "bad_request"),
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
    "UTF-16": (b"", '{"path":"no/such"}'.encode("utf-16"), 400, "body_not_json"),
    "UTF-16 without a mark": (b"", '{"path":"no/such"}'.encode("utf-16-le"), 400, "body_not_json"),
    "UTF-32": (b"", '{"path":"no/such"}'.encode("utf-32"), 400, "body_not_json"),
    "a byte order mark": (b"", b'\xef\xbb\xbf{"path":"no/such"}', 400, "body_not_json"),
    "XML": (b"Content-Type: text/xml\r\n", b"<path/>", 400, "body_not_json"),
    "nothing": (b"", b"", 422, "body_invalid"),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_cannot_be(raw, name):
    head, body, status, code = BODIES[name]
    sent = START + head + b"Content-Length: %d\r\n" % len(body) + raw.head() + body
    found, headers, told = raw(sent)
    assert (found, json.loads(told)["code"], headers["content-type"]) == (status, code, PROBLEM)


@pytest.mark.parametrize("code", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_a_playbook_in_json_is_utf_8(raw, code):
    body = '{"content": "a: 1", "path": "demo/x"}'.encode(code)
    sent = (
        b"POST /api/catalog/register HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        % len(body)
    )
    found, _, told = raw(sent + raw.head() + body)
    assert (found, json.loads(told)["code"]) == (400, "body_not_json")
    assert "UTF-8" in json.loads(told)["hint"]


PATHS = ["../x", "a/../x", "a/./x", "-rf", "a/-rf", ".hidden", "a/.hidden", "a//b", "a/", " a", "a/ b", "a /b", "a\x85b", "a\u202eb", "a\x7fb",
         "..%2fx", "%2e%2e/x", "a%2f%2fb", "a%00b", "%0d%0aX: y", "a%1b[2J"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_are_none(raw, path):
    """In an address, where percents are decoded once, and in a body, where they are what they are."""
    target = quote(path, safe="/%").encode()
    found, headers, told = raw(b"GET /api/catalog/%s HTTP/1.1\r\n" % target + raw.head())
    assert (found, json.loads(told)["code"], headers["content-type"]) == (422, "invalid_path", PROBLEM)
    body = json.dumps({"content": PLAYBOOK, "path": unquote(path)}).encode()
    sent = (
        b"POST /api/catalog/register HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        % len(body)
    )
    found, headers, told = raw(sent + raw.head() + body)
    assert (found, json.loads(told)["code"], headers["content-type"]) == (422, "invalid_path", PROBLEM)


def test_a_refused_head_leaves_nothing_to_the_next_request(raw):
    """What a smuggled request would be: the bytes after a head that has two lengths."""
    hidden = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    with raw.connect() as connection:
        connection.sendall(
            START + b"Host: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden
        )
        told = read(connection)
    assert told.count(b"HTTP/1.") == 1 and b" 400 " in told.split(b"\r\n")[0]


def test_chunks_are_a_body_and_too_many_are_told_so(raw):
    chunked = START + raw.head(b"Transfer-Encoding: chunked")
    assert raw(chunked + b'11\r\n{"path":"no/such"\r\n1\r\n}\r\n0\r\n\r\n')[0] == 404
    found, _, body = raw(chunked + CHUNK * 6 + b"0\r\n\r\n")
    assert (found, json.loads(body)["code"]) == (413, "body_too_large")
    assert json.loads(body)["details"]["found"] == 6 * 0x100000


def test_a_body_that_is_not_read_to_its_end_is_told_with_its_whole_size(raw):
    sent = b"x" * (MAX_BODY + 1000)
    found, _, body = raw(START + b"Content-Length: %d\r\n" % len(sent) + raw.head() + sent)
    told = json.loads(body)
    assert (found, told["details"]["found"]) == (413, len(sent))
    assert f"has {len(sent)} bytes, more than {MAX_BODY}" in told["detail"]


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
