"""Google Cloud Storage, as a server here plays it by the documents of its JSON API: it verifies what is signed, and keeps objects."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.kinds import gcs
from noetl.kinds.google_auth import forget_tokens
from noetl.kinds.registry import default_registry

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()


def unpacked(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


class Google:
    """Its token endpoint and its storage."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.contents: dict[tuple[str, str], bytes] = {}
        self.tokens = 0
        self.corrupts = False
        self.busy = 0
        self.port = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        url = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/token":
            return self.token(parse_qs(body.decode()))
        if headers.get("authorization") != f"Bearer token-{self.tokens}":
            return self.refusal(401, "authError", "Invalid Credentials")
        if self.busy:
            self.busy -= 1
            return self.refusal(429, "rateLimitExceeded", "slow down")
        found = re.fullmatch(r"(/upload)?/storage/v1/b/([^/]+)/o(?:/([^/]+?))?(/compose)?", url.path)
        assert found, path
        upload, bucket, name, compose = found.groups()
        if bucket != "lake":
            return self.refusal(404, "notFound", "The specified bucket does not exist.")
        if upload:
            return self.upload(bucket, headers, body, query)
        if name is None:
            return self.list(bucket, query)
        place = (bucket, unquote(name))
        if compose:
            parts = [self.contents[bucket, one["name"]] for one in json.loads(body)["sourceObjects"]]
            return self.keep(place, b"".join(parts), json.loads(body).get("destination", {}), query)
        if place not in self.objects:
            return self.refusal(404, "notFound", f"No such object: {bucket}/{place[1]}")
        if method == "DELETE":
            del self.objects[place]
            return 204, b""
        if query.get("alt") == "media":
            assert query["generation"] == self.objects[place]["generation"]
            return 200, self.contents[place]
        return 200, json.dumps(self.objects[place]).encode()

    def token(self, form: dict[str, list[str]]) -> tuple[int, bytes]:
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        head, claims, signature = form["assertion"][0].split(".")
        raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
        KEY.public_key().verify(raw, f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        said = unpacked(claims)
        assert unpacked(head) == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
        assert (said["aud"], said["scope"]) == (f"{self.base}/token", gcs.SCOPE)
        assert abs(said["iat"] - time.time()) < 60 and said["exp"] - said["iat"] == 3600
        if said["iss"] != "reader@lake":
            return 400, b'{"error":"invalid_grant","error_description":"account not found"}'
        self.tokens += 1
        return 200, json.dumps({"access_token": f"token-{self.tokens}", "expires_in": 3600}).encode()

    def upload(
        self, bucket: str, headers: dict[str, str], body: bytes, query: dict[str, str]
    ) -> tuple[int, bytes]:
        mark = re.fullmatch(r"multipart/related; boundary=(\w+)", headers["content-type"])
        assert mark and query["uploadType"] == "multipart"
        _, about, content, end = body.split(f"--{mark[1]}".encode())
        assert end == b"--\r\n"
        said = json.loads(about.partition(b"\r\n\r\n")[2])
        data = content.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
        return self.keep((bucket, said["name"]), data, said, query)

    def keep(
        self, place: tuple[str, str], data: bytes, about: dict[str, Any], query: dict[str, str]
    ) -> tuple[int, bytes]:
        if query.get("ifGenerationMatch") == "0" and place in self.objects:
            return self.refusal(
                412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold."
            )
        self.contents[place] = data[:-1] if self.corrupts else data
        self.objects[place] = {
            "bucket": place[0],
            "name": place[1],
            "size": str(len(data)),
            "generation": str(len(self.objects) + 1),
            "updated": "2026-11-21T10:00:00Z",
            "contentType": about.get("contentType"),
            "metadata": about.get("metadata") or {},
            "md5Hash": base64.b64encode(
                hashlib.md5(self.contents[place], usedforsecurity=False).digest()
            ).decode(),
        }
        return 200, json.dumps(self.objects[place]).encode()

    def list(self, bucket: str, query: dict[str, str]) -> tuple[int, bytes]:
        names = sorted(name for _, name in self.objects if name.startswith(query["prefix"]))
        if "delimiter" in query:
            rest = [name.removeprefix(query["prefix"]) for name in names]
            folders = sorted({query["prefix"] + one.split("/")[0] + "/" for one in rest if "/" in one})
            return 200, json.dumps({"prefixes": folders}).encode()
        first = int(query.get("pageToken", 0))
        most = min(2, int(query["maxResults"]))
        page: dict[str, Any] = {"items": [self.objects[bucket, name] for name in names[first : first + most]]}
        if first + most < len(names):
            page["nextPageToken"] = str(first + most)
        return 200, json.dumps(page).encode()

    def refusal(self, status: int, reason: str, message: str) -> tuple[int, bytes]:
        error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
        return status, json.dumps({"error": error}).encode()


@pytest.fixture
def google() -> Iterator[Google]:
    played = Google()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, said = played.answer(self.command, self.path, headers, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    played.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    forget_tokens()
    yield played
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def call(google, make_context):
    def call(data: dict[str, Any] | None = None, **params: Any) -> Any:
        account = {
            "client_email": "reader@lake",
            "private_key": PEM,
            "private_key_id": "k1",
            "token_uri": f"{google.base}/token",
        }
        given = {"service_account": json.dumps(account), "endpoint": google.base} if data is None else data
        context = make_context(
            credentials={"lake": Credential("lake", "gcs", given)},
            http_allow=("127.0.0.1",),
            output_max_bytes=1000,
        )
        return default_registry().run("gcs", {"auth": "lake", "bucket": "lake", **params}, context).result

    return call


def test_what_is_uploaded_is_downloaded_listed_composed_and_deleted(google, call):
    for number in range(5):
        made = call(
            action="upload",
            object=f"in/{number % 2}/ä {number}.jsonl",
            body=[{"n": number}],
            metadata={"by": "test"},
        )
        assert (made["size"], made["content_type"]) == (8, "application/x-ndjson")
    got = call(object="in/1/ä 1.jsonl")
    assert (got["body"], got["metadata"]) == ([{"n": 1}], {"by": "test"})
    found, token = [], None
    while True:
        page = call(action="list", prefix="in/", limit=3, token=token)
        found += [one["name"] for one in page["objects"]]
        if (token := page["next"]) is None:
            break
    assert found == sorted(name for _, name in google.objects) and len(found) == 5
    assert call(action="list", prefix="in/", delimiter="/")["prefixes"] == ["in/0/", "in/1/"]
    whole = call(action="compose", object="all.jsonl", sources=found[:3], content_type="application/x-ndjson")
    assert whole["size"] == 24
    assert [row["n"] for row in call(object="all.jsonl")["body"]] == [0, 2, 4]
    assert call(action="delete", object="all.jsonl") == {"deleted": 1}
    assert call(action="delete", object="all.jsonl") == {"deleted": 0}
    assert google.tokens == 1, "a token serves until it ends"


def test_a_token_may_be_given(google, call):
    google.tokens = 7
    given = {"access_token": "token-7", "endpoint": google.base}
    call(given, action="upload", object="a.txt", body="text")
    assert call(given, object="a.txt")["body"] == "text"


def failed(call: Any, data: dict[str, Any] | None = None, **params: Any) -> TaskError:
    with pytest.raises(TaskError) as caught:
        call(data, **params)
    assert "PRIVATE KEY" not in str(caught.value) + json.dumps(caught.value.details)
    return caught.value


@pytest.mark.parametrize(
    ("params", "kind", "code", "retryable"),
    [
        ({"object": "nowhere"}, "not_found", "notFound", False),
        ({"bucket": "elsewhere", "object": "a"}, "not_found", "notFound", False),
        (
            {"action": "upload", "object": "a.txt", "body": "b", "if_absent": True},
            "client_error",
            "object_exists",
            False,
        ),
        ({"object": "large.txt"}, "storage_quota", "object_too_large", False),
        ({"object": "a.txt", "format": "json"}, "parse", "object_format", False),
        ({"action": "compose", "object": "b"}, "schema", "kind_params", False),
        ({"action": "list", "object": "b"}, "schema", "kind_params", False),
    ],
)
def test_errors(call, google, params, kind, code, retryable):
    call(action="upload", object="a.txt", body="text")
    call(action="upload", object="large.txt", body="x" * 2000)
    error = failed(call, **params)
    assert (error.kind, error.code, error.retryable) == (kind, code, retryable)


def test_too_often_and_spoilt_on_the_way(call, google):
    google.busy = 1
    error = failed(call, object="a")
    assert (error.kind, error.code, error.retryable) == ("rate_limit", "rateLimitExceeded", True)
    google.corrupts = True
    error = failed(call, action="upload", object="a", body="text")
    assert (error.code, error.retryable) == ("object_changed", True)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"client_email": "nobody@lake"}, "token_refused"),
        ({"private_key": "no key"}, "credential_shape"),
        ({"private_key": None}, "credential_shape"),
    ],
)
def test_accounts_that_google_does_not_know(call, google, changes, code):
    account = {
        "client_email": "reader@lake",
        "private_key": PEM,
        "private_key_id": "k1",
        "token_uri": f"{google.base}/token",
        "endpoint": google.base,
    } | changes
    error = failed(call, account, object="a")
    assert (error.kind, error.code) == ("auth", code)
