"""The http kind against a real server: requests, results, errors, limits, and what it refuses to reach."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import threading
import time
import zlib

import pytest

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.kinds.registry import default_registry
from noetl.kinds.support import net_guard
from tests.parts import repeated
from tests.waiting import PATIENCE

ALLOW = ("127.0.0.1",)
JSON = {"Content-Type": "application/json"}


def call(context, **params):
    return default_registry().run("http", params, context)


@pytest.fixture
def context(make_context):
    return make_context(http_allow=ALLOW)


def failure(context, **params) -> TaskError:
    with pytest.raises(TaskError) as caught:
        call(context, **params)
    return caught.value


def test_result_has_the_documented_shape(web, context):
    big = 12345678901234567890123
    web.answers["/a"] = (200, {**JSON, "X-Twice": ["1", "2"]}, f'{{"id": {big}, "items": [1]}}'.encode())
    found = call(
        context, method="get", url=f"{web.base}/a", params={"tag": ["x y", "z&"], "on": True, "none": None}
    )
    assert found.result["status_code"] == 200
    assert found.result["data"] == {"id": big, "items": [1]}
    assert found.result["headers"]["x-twice"] == "1, 2"
    assert found.result["url"] == f"{web.base}/a?tag=x%20y&tag=z%26&on=true"
    assert found.result["elapsed"] > 0
    assert found.meta["http"] == {
        "status": 200,
        "headers": found.result["headers"],
        "url": found.result["url"],
    }
    assert web.received[0].path == "/a?tag=x%20y&tag=z%26&on=true"


@pytest.mark.parametrize(
    ("params", "content_type", "body"),
    [
        ({"payload": {"a": [1, None]}}, "application/json", b'{"a":[1,null]}'),
        ({"json": []}, "application/json", b"[]"),
        ({"data": "plain ü"}, "text/plain; charset=utf-8", "plain ü".encode()),
        ({"body": "<a/>", "headers": {"content-type": "application/xml"}}, "application/xml", b"<a/>"),
        ({"form": {"a": [1, "b c"], "x": True}}, "application/x-www-form-urlencoded", b"a=1&a=b+c&x=true"),
        (
            {"body": {"a": 1}, "headers": {"Content-Type": "application/x-www-form-urlencoded"}},
            "application/x-www-form-urlencoded",
            b"a=1",
        ),
    ],
)
def test_bodies(web, context, params, content_type, body):
    web.answers["/p"] = (201, {}, b"")
    assert call(context, method="POST", endpoint=f"{web.base}/p", **params).result["data"] is None
    assert web.received[0].headers["content-type"] == content_type
    assert web.received[0].body == body
    assert web.received[0].headers["idempotency-key"] == "1/step/task"


def test_the_author_may_set_the_idempotency_key(web, context):
    web.answers["/"] = (200, {}, b"")
    call(context, url=web.base, headers={"idempotency-key": "own"})
    assert web.received[0].headers["idempotency-key"] == "own"


@pytest.mark.parametrize(
    ("credential", "header", "value"),
    [
        (Credential("c", "basic", {"username": "ü", "password": "p"}), "authorization", "Basic " + base64.b64encode("ü:p".encode()).decode()),
        (Credential("c", "bearer", {"token": "t"}), "authorization", "Bearer t"),
        (Credential("c", "oauth2", {"access_token": "t"}), "authorization", "Bearer t"),
        (Credential("c", "api_key", {"header": "X-K", "value": "v"}), "x-k", "v"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("auth", ["c", {"credential": "c"}])
def test_auth(web, make_context, credential, header, value, auth):
    web.answers["/"] = (200, {}, b"")
    context = make_context(http_allow=ALLOW, credentials={"c": credential})
    call(context, url=web.base, auth=auth)
    assert web.received[0].headers[header] == value


@pytest.mark.parametrize(
    ("auth", "code"),
    [
        ("missing", "credential_not_found"),
        ({"type": "bearer"}, "auth_invalid"),
        ({"type": "x"}, "auth_invalid"),
    ],
)
def test_auth_that_cannot_work(web, context, auth, code):
    error = failure(context, url=web.base, auth=auth)
    assert (error.kind, error.code) == ("auth", code)
    assert web.received == []


@pytest.mark.parametrize(
    ("content_type", "body", "data", "encoding"),
    [
        ("application/problem+json", b'\xef\xbb\xbf{"a":1}', {"a": 1}, None),
        ("text/csv; charset=iso-8859-1", b"\xfc", "ü", None),
        ("text/plain; charset=zlib", "ü".encode(), "ü", None),
        ("application/octet-stream", b"\x00\xff", "AP8=", "base64"),
        ("application/octet-stream", b"text", "text", None),
        ("application/json", b"", None, None),
    ],
)
def test_data_by_content_type(web, context, content_type, body, data, encoding):
    web.answers["/"] = (200, {"Content-Type": content_type}, body)
    result = call(context, url=web.base).result
    assert result["data"] == data
    assert result.get("encoding") == encoding


@pytest.mark.parametrize(
    "body",
    [b"{", b"NaN", b"[1e999]", b"[" * 10_000 + b"]" * 10_000, b"\xff\xfe\x00"],
    ids=["cut", "nan", "inf", "deep", "bytes"],
)
def test_bad_json_is_an_error_that_keeps_the_body(web, context, body):
    web.answers["/"] = (200, JSON, body)
    error = failure(context, url=web.base)
    assert (error.kind, error.code, error.status) == ("parse", "invalid_json", 200)
    assert error.details["body"]


def test_an_answer_of_too_many_values_is_refused_before_anything_is_made_of_it(web, context):
    web.answers["/"] = (200, JSON, b"[" + b"[]," * 2_000_000 + b"0]")
    assert failure(context, url=web.base).code == "result_too_large"


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "client_error", False),
        (401, "auth", False),
        (403, "auth", False),
        (404, "not_found", False),
        (408, "timeout", True),
        (409, "client_error", False),
        (425, "client_error", True),
        (429, "rate_limit", True),
        (500, "server_error", True),
        (501, "server_error", False),
        (502, "server_error", True),
        (503, "server_error", True),
        (504, "timeout", True),
        (599, "server_error", False),
    ],
)
def test_failed_status(web, context, status, kind, retryable):
    web.answers["/"] = (status, {**JSON, "Retry-After": "7"}, b'{"why": "no"}')
    error = failure(context, method="POST", url=web.base)
    assert (error.kind, error.status, error.retryable) == (kind, status, retryable)
    assert error.details["body"] == {"why": "no"}
    assert error.details["retry_after"] == 7.0
    assert error.details["http"]["status"] == status


def test_the_body_of_a_failed_call_is_bounded(web, context):
    web.answers["/"] = (500, {}, b"x" * 5_000_000)
    assert failure(context, url=web.base).details["body"] == "x" * 16_384


def test_connections_are_kept(web, context):
    web.answers["/"] = (200, {}, b"hi")
    web.answers["/missing"] = (404, {}, b"no")
    for path in ("/", "/missing", "/"):
        try:
            call(context, url=web.base + path)
        except TaskError as error:
            assert error.status == 404
    assert len({received.client for received in web.received}) == 1


# --- redirects ----------------------------------------------------------------------------------


def test_redirects_are_followed(web, context):
    web.answers["/1"] = (302, {"Location": "/2"}, b"")
    web.answers["/2"] = (307, {"Location": f"{web.base}/3"}, b"")
    web.answers["/3"] = (200, {}, b"end")
    result = call(
        context, method="POST", url=f"{web.base}/1", body={"a": 1}, headers={"Authorization": "x"}
    ).result
    assert (result["data"], result["url"]) == ("end", f"{web.base}/3")
    assert [(r.method, r.body) for r in web.received] == [("POST", b'{"a":1}'), ("GET", b""), ("GET", b"")]
    assert "content-type" not in web.received[2].headers
    assert web.received[2].headers["authorization"] == "x"


def test_307_repeats_the_body(web, context):
    web.answers["/1"] = (307, {"Location": "/2"}, b"")
    web.answers["/2"] = (200, {}, b"")
    call(context, method="PUT", url=f"{web.base}/1", body="again")
    assert (web.received[1].method, web.received[1].body) == ("PUT", b"again")


def test_not_following_gives_the_redirect(web, context):
    web.answers["/"] = (301, {"Location": "/2"}, b"moved")
    result = call(context, url=web.base, follow_redirects=False).result
    assert (result["status_code"], result["headers"]["location"]) == (301, "/2")


def test_an_accepted_status_is_a_result(web, context):
    web.answers["/"] = (404, {"Content-Type": "application/json"}, b'{"why": "no such jar"}')
    for accepted in ("any", [404, 409]):
        found = call(context, url=web.base, accept_status=accepted)
        assert (found.result["status_code"], found.result["data"]) == (404, {"why": "no such jar"})
        assert found.meta["http"]["status"] == 404
    assert failure(context, url=web.base, accept_status=[409]).code == "http_404"
    web.answers["/"] = (404, {"Content-Type": "text/plain"}, b"a" * 1_000_000)
    assert len(call(context, url=web.base, accept_status="any").result["data"]) == 1_000_000
    with pytest.raises(TaskError, match="accept_status"):
        call(context, url=web.base, accept_status="any", paginate={"by": "page"})


def test_endless_redirects(web, context):
    web.answers["/"] = (302, {"Location": "/"}, b"")
    assert failure(context, url=web.base).code == "too_many_redirects"
    assert len(web.received) == 6


def test_credentials_stay_with_their_origin(web, make_context):
    context = make_context(
        http_allow=("127.0.0.1", "localhost"),
        credentials={"k": Credential("k", "header", {"header": "X-Key", "value": "s3cret"})},
    )
    web.answers["/1"] = (302, {"Location": f"http://localhost:{web.port}/2"}, b"")
    web.answers["/2"] = (200, {}, b"")
    call(
        context, url=f"{web.base}/1", auth="k", headers={"Authorization": "a", "Cookie": "c", "X-Other": "o"}
    )
    first, second = web.received
    assert {"authorization", "cookie", "x-key"} <= first.headers.keys()
    assert not {"authorization", "cookie", "x-key"} & second.headers.keys()
    assert second.headers["x-other"] == "o"
    assert second.headers["host"] == f"localhost:{web.port}"


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://169.254.169.254/latest/meta-data/", "address_refused"),
        ("http://[::ffff:169.254.169.254]/", "address_refused"),
        ("http://2852039166/", "url_invalid"),
        ("file:///etc/passwd", "url_invalid"),
        ("//10.0.0.1/", "address_refused"),
        ("http://u:p@127.0.0.1/", "url_invalid"),
        ("http://[::1", "url_invalid"),
    ],
)
def test_redirects_are_guarded(web, context, location, code):
    web.answers["/"] = (302, {"Location": location}, b"")
    error = failure(context, url=web.base)
    assert (error.kind, error.code) == ("client_error", code)
    assert error.details["redirects"][0].startswith(web.base), "whoever reads it knows who sent him there"


# --- hostile addresses and input ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://127.0.0.1/", "address_refused"),
        ("http://localhost:1/", "address_refused"),
        ("http://[::1]/", "address_refused"),
        ("http://[::ffff:127.0.0.1]/", "address_refused"),
        ("http://[64:ff9b::a9fe:a9fe]/", "address_refused"),
        ("http://[2002:7f00:1::]/", "address_refused"),
        ("http://169.254.169.254/latest/meta-data/", "address_refused"),
        ("http://100.64.0.1/", "address_refused"),
        ("http://0.0.0.0/", "address_refused"),
        ("http://224.0.0.1/", "address_refused"),
        ("http://2130706433/", "url_invalid"),
        ("http://0177.0.0.1/", "url_invalid"),
        ("http://0x7f.1/", "url_invalid"),
        ("http://127.1/", "url_invalid"),
        ("http://127.0.0.1\\@example.com/", "url_invalid"),
        ("http://example.com@127.0.0.1/", "url_invalid"),
        ("http://exa mple.com/", "url_invalid"),
        ("http://example.com/\r\nX-A: b", "url_invalid"),
        ("http://example.com:99999/", "url_invalid"),
        ("http://[fe80::1%25eth0]/", "url_invalid"),
        ("http://%31%32%37.0.0.1/", "url_invalid"),
        ("http:///x", "url_invalid"),
        ("//example.com/", "url_invalid"),
        ("file:///etc/passwd", "url_invalid"),
        ("ftp://example.com/", "url_invalid"),
        ("gopher://127.0.0.1/", "url_invalid"),
    ],
)
def test_hostile_urls(make_context, url, code):
    error = failure(make_context(), url=url)
    assert (error.kind, error.code, error.retryable) == ("client_error", code, False)


def test_a_name_is_judged_by_every_address_it_has_and_resolved_once(web, make_context, monkeypatch):
    asked = []

    def rebinding(host, port, **_):
        asked.append(host)
        return [(socket.AF_INET, 1, 6, "", (address, port)) for address in ("93.184.216.34", "127.0.0.1")]

    monkeypatch.setattr(net_guard.socket, "getaddrinfo", rebinding)
    error = failure(make_context(), url=f"http://rebind.example:{web.port}/")
    assert (error.code, error.details["address"]) == ("address_refused", "127.0.0.1")
    assert asked == ["rebind.example"]
    assert web.received == []


@pytest.mark.parametrize(
    ("allow", "reached"),
    [
        (("127.0.0.0/8",), True),
        (("LOCALHOST",), True),
        (("localhost.example",), False),
        (("10.0.0.0/8",), False),
    ],
)
def test_a_deployment_can_allow_internal_places(web, make_context, allow, reached):
    web.answers["/"] = (200, {}, b"in")
    context, url = make_context(http_allow=allow), f"http://localhost:{web.port}/"
    if reached:
        assert call(context, url=url).result["data"] == "in"
    else:
        assert failure(context, url=url).code == "address_refused"


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "b\r\nX-C: d"},
        {"X-A\r\nB": "c"},
        {"X-A": "\0"},
        {"X-A": "☃"},
        {"Host": "internal"},
        {"X": {}},
        {"": "x"},
    ],
)
def test_hostile_headers(web, context, headers):
    error = failure(context, url=web.base, headers=headers)
    assert (error.kind, error.code) == ("client_error", "header_invalid")
    assert web.received == []


def test_environment_proxies_are_ignored(web, context, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    web.answers["/"] = (200, {}, b"direct")
    assert call(context, url=web.base).result["data"] == "direct"


# --- limits ---------------------------------------------------------------------------------------


def test_gzip_is_decoded_and_a_bomb_is_not(web, make_context):
    context = make_context(http_allow=ALLOW, http_max_bytes=1_000_000)
    web.answers["/small"] = (200, {"Content-Encoding": "gzip"}, gzip.compress(b"small"))
    assert call(context, url=f"{web.base}/small").result["data"] == "small"
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join(
        [*(packer.compress(bytes(1_000_000)) for _ in range(repeated(gate=30, full=300))), packer.flush()]
    )
    web.answers["/bomb"] = (200, {"Content-Encoding": "gzip"}, bomb)
    error = failure(context, url=f"{web.base}/bomb")
    assert (error.kind, error.code) == ("storage_quota", "response_too_large")


def test_an_endless_body_is_cut_by_size(web, make_context):
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b"x" * 100_000)

    web.answers["/"] = endless
    error = failure(make_context(http_allow=ALLOW, http_max_bytes=1_000_000), url=web.base)
    assert (error.code, error.retryable) == ("response_too_large", False)


def test_results_are_measured_as_json(web, make_context):
    web.answers["/"] = (200, {"Content-Type": "text/plain"}, b"\x01" * 1000)
    error = failure(make_context(http_allow=ALLOW, output_max_bytes=5000), url=web.base)
    assert (error.kind, error.code) == ("storage_quota", "result_too_large")
    assert error.details["size"] > 6000


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["status", "headers", "length", "to the end", "chunked"],
)
def test_a_dripping_server_ends_with_the_timeout(raw_server, make_context, head):
    dripped = []

    def drip(peer):
        peer.recv(1000)
        peer.sendall(head)
        while True:  # until the client hangs up
            peer.sendall(b"1")
            dripped.append(1)
            time.sleep(0.02)

    error = failure(make_context(http_allow=ALLOW, timeout=0.5), url=raw_server(drip))
    assert (error.kind, error.code, error.retryable) == ("timeout", "timeout", True)
    assert len(dripped) > 1, "not at the first byte"


def test_read_timeout(raw_server, context):
    ended = threading.Event()
    silent = raw_server(lambda peer: ended.wait(PATIENCE))
    error = failure(context, url=silent, timeout={"connect": PATIENCE, "read": 0.2})
    ended.set()
    assert (error.kind, error.code, error.retryable) == ("timeout", "read_timeout", True)


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (b"", "connection", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "connection", "connection_lost"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "server_error", "bad_response"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: %s\r\n" % (b"y" * 30_000) * 3 + b"\r\n", "server_error", "headers_too_large"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", "server_error", "bad_response"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", "server_error", "bad_response"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "parse", "content_encoding"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "connection", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"whole", mtime=0)[:-9], "connection", "connection_lost"),
        (b"HTTP/1.1 404 Gone\r\nContent-Length: 99\r\n\r\ncut", "not_found", "http_404"),
    ],
)  # fmt: skip
def test_broken_answers(raw_server, context, answer, kind, code):
    def talk(peer):
        peer.recv(10_000)
        peer.sendall(answer)

    error = failure(context, url=raw_server(talk))
    assert (error.kind, error.code) == (kind, code)
    assert error.retryable == (kind == "connection")


def test_nobody_listens(context):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = failure(context, url=f"http://127.0.0.1:{port}/")
    assert (error.kind, error.code, error.retryable) == ("connection", "connect_failed", True)
    assert error.hint is not None and "is the service running" in error.hint


def test_a_name_that_does_not_exist(context):
    error = failure(context, url="http://no-such-host.invalid/")
    assert error.code in ("dns_failed", "dns_timeout")
    assert error.retryable
    assert error.code == "dns_timeout" or "correct the host" in (error.hint or "")


def test_canaries_stay_out_of_errors(web, make_context):
    context = make_context(
        http_allow=ALLOW, credentials={"c": Credential("c", "bearer", {"token": "canary-7"})}
    )
    web.answers["/"] = (500, {}, b"broken")
    error = failure(context, url=web.base, auth="c")
    assert "canary-7" not in json.dumps([str(error), error.details])
