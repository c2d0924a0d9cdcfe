"""Google Cloud Storage, as a server here plays it by the documents of its JSON API: it verifies what is signed, and keeps objects."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from noetl.kinds.cloud.gcs_api import SCOPE
from noetl.kinds.cloud.google_auth import forget_tokens
from tests.waiting import PATIENCE

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
        self.uploads: dict[str, tuple[tuple[str, str], dict[str, str], bytearray]] = {}
        self.contents: dict[tuple[str, str], bytes] = {}
        self.tokens = 0
        self.corrupts = False
        self.busy = 0
        self.port = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def account(self) -> dict[str, str]:
        """The service account that it knows, as a key file has it."""
        return {
            "client_email": "reader@lake",
            "private_key": PEM,
            "private_key_id": "k1",
            "token_uri": f"{self.base}/token",
        }

    def answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes] | tuple[int, bytes, dict[str, str]]:
        url = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/token":
            return self.token(parse_qs(body.decode()))
        if headers.get("authorization") not in {f"Bearer token-{one}" for one in range(1, self.tokens + 1)}:
            return self.refusal(401, "authError", "Invalid Credentials")
        if self.busy:
            self.busy -= 1
            return self.refusal(429, "rateLimitExceeded", "slow down")
        found = re.fullmatch(r"(/upload)?/storage/v1/b/([^/]+)/o(?:/([^/]+?))?(/compose)?", url.path)
        assert found, path
        upload, bucket, name, compose = found.groups()
        if bucket != "lake":
            return self.refusal(404, "notFound", "The specified bucket does not exist.")
        if "upload_id" in query:
            return self.part(method, query["upload_id"], headers, body)
        if upload and query["uploadType"] == "resumable":
            number = str(len(self.uploads))
            self.uploads[number] = ((bucket, query["name"]), query, bytearray())
            return 200, b"", {"Location": f"{self.base}{url.path}?upload_id={number}"}
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
            assert query.get("generation") in (None, self.objects[place]["generation"])
            return self.content(self.contents[place], headers.get("range", ""))
        return 200, json.dumps(self.objects[place]).encode()

    def content(self, data: bytes, wanted: str) -> tuple[int, bytes]:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", wanted)
        if not found:
            return 200, data
        first, last = int(found[1]), int(found[2])
        if first >= len(data):
            return 416, b"<Error><Code>InvalidRange</Code></Error>"
        return 206, data[first : last + 1]

    def part(self, method: str, number: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Of an upload in parts: each begins where the last one ended, and is a multiple of 256 KiB unless it is the last."""
        if method == "DELETE":
            del self.uploads[number]
            return 499, b""
        place, query, data = self.uploads[number]
        found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", headers["content-range"])
        assert found and int(found[1]) == len(data) and int(found[2]) - len(data) + 1 == len(body)
        data += body
        if found[3] == "*":
            assert len(body) % (256 * 1024) == 0
            return 308, b""
        assert int(found[3]) == len(data)
        del self.uploads[number]
        return self.keep(place, bytes(data), {}, query)

    def token(self, form: dict[str, list[str]]) -> tuple[int, bytes]:
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        head, claims, signature = form["assertion"][0].split(".")
        raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
        KEY.public_key().verify(raw, f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        said = unpacked(claims)
        assert unpacked(head) == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
        assert (said["aud"], said["scope"]) == (f"{self.base}/token", SCOPE)
        assert said["iat"] <= time.time() + 60 < said["exp"] and said["exp"] - said["iat"] == 3600
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
        left = [name for name in names if name > query.get("pageToken", "")]
        most = min(2, int(query["maxResults"]))
        page: dict[str, Any] = {"items": [self.objects[bucket, name] for name in left[:most]]}
        if left[most:]:
            page["nextPageToken"] = left[most - 1]
        return 200, json.dumps(page).encode()

    def refusal(self, status: int, reason: str, message: str) -> tuple[int, bytes]:
        error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
        return status, json.dumps({"error": error}).encode()


@contextmanager
def google_cloud() -> Iterator[Google]:
    """A server of its own, without objects."""
    played = Google()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, said, *more = played.answer(self.command, self.path, headers, body)
            self.send_response(status)
            for name, value in more[0].items() if more else ():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    played.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    forget_tokens()
    try:
        yield played
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)
