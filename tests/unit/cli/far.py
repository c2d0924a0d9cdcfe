"""A server in this process: the real routes over stores in memory, reached by the client's own transport."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from urllib3.exceptions import ProtocolError

from noetl.api.http.access import widened
from noetl.api.http.asgi import make_handler
from noetl.api.http.exchange import Principal, Request
from tests.unit.api.ground import Ground

URL = "https://noetl.example/live"
TOKEN = "noetl_abc-a-secret-of-256-bits"


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    data: bytes

    def __post_init__(self) -> None:
        self.stream = io.BytesIO(self.data)

    def read(self, amt: int) -> bytes:
        return self.stream.read(amt)

    def close(self) -> None:
        self.stream.close()


@dataclass
class Far:
    """``troubles``: what happens to the next requests instead: an answer, an exception, ``lost`` (done, but the answer is lost), or None:
    nothing."""

    ground: Ground = field(default_factory=Ground)
    scopes: list[str] = field(default_factory=lambda: ["admin"])
    asked: list[tuple[str, str, Mapping[str, str], bytes | None]] = field(default_factory=list)
    troubles: list[Answer | Exception | str | None] = field(default_factory=list)
    idle: int = 0
    """The engine works on whatever was published after each request, but not after so many of the next."""

    def __post_init__(self) -> None:
        self.handle = make_handler(self.ground.api, self)

    def principal(self, token: str) -> Principal | None:
        return Principal("token:ann", "local", "token:ann", widened(self.scopes)) if token == TOKEN else None

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        self.asked.append((method, url, headers, body))
        trouble = self.troubles.pop(0) if self.troubles else None
        if isinstance(trouble, Exception):
            raise trouble
        if isinstance(trouble, Answer):
            return trouble
        answer = self._answer(method, url, headers, body)
        self.idle -= 1
        if self.idle < 0 and self.ground.publisher.sent:
            self.ground.settle()
        if trouble == "lost":
            raise ProtocolError("Connection broken", ConnectionResetError())
        return answer

    def _answer(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        parts = urlsplit(url)
        assert url.startswith(f"{URL}/"), url
        path = parts.path.removeprefix("/live")
        request = Request(
            method,
            path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers={"content-type": "", **{name.lower(): value for name, value in headers.items()}},
            body=body or b"",
            request_id="a-request",
        )
        found = self.handle(request)
        content = found.body().encode() if found.content is None else b"".join(found.content)
        about = {"Content-Type": found.content_type, "Content-Length": str(len(content))}
        return Answer(found.status, {**about, **found.headers}, content)
