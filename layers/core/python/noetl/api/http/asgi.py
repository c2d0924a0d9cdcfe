"""The routes as an ASGI application: handlers run in threads, slow clients hold none."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

from noetl.adapters.connection_users import user_of
from noetl.api.deps import MAX_BODY
from noetl.api.http.access import LOCAL
from noetl.api.http.browser_sessions import BrowserSessions
from noetl.api.http.dispatch import REQUEST_ID, Api, is_open, resolve
from noetl.api.http.exchange import Answer, Principal, Request, drawn_name
from noetl.api.http.problems import problem
from noetl.api.http.same_origin import check_kind, check_local
from noetl.api.http.ui_files import UiFiles, codings
from noetl.domain.callbacks import shown_path
from noetl.domain.errors import OverloadedError

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Handler = Callable[[Request], Answer]
BEARER = "bearer "
HEALTH = "/health"
COMPRESSED_FROM = 4096
"""Bytes of JSON from which an answer is compressed; level of gzip:"""
GZIP_LEVEL = 4


class Tokens(Protocol):
    def principal(self, token: str) -> Principal | None:
        """Return the principal of a bearer token."""


class Threads(Protocol):
    """Runs what blocks."""

    async def run(self, work: Callable[[], T], *, apart: bool = False) -> T:
        """Run ``work`` in a thread; ``apart``: in one that other requests cannot keep busy."""


@dataclass(frozen=True, slots=True)
class _Encoded:
    """An answer as it is sent.

    ``body``: all bytes, bytes in pieces that a thread reads, or events that arrive by themselves.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes | Iterable[bytes] | AsyncGenerator[bytes, None]


def _unobserved(method: str, status: int, seconds: float) -> None:
    """Count no requests."""


def make_handler(
    api: Api,
    tokens: Tokens | None,
    observe: Callable[[str, int, float], None] = _unobserved,
    *,
    sessions: BrowserSessions | None = None,
    ui: UiFiles | None = None,
) -> Handler:
    """Return the function from a request to its answer, which never raises.

    ``tokens`` None: programs of this machine and the UI's own pages may do everything, pages of other origins nothing (see ``same_origin``).
    ``observe`` receives method, status and seconds of each request. ``sessions``: those of browsers that show the UI; ``ui``: its files.
    """

    def find(request: Request) -> Answer:
        if ui is not None and (file := ui.answer(request)) is not None:
            return file
        principal = _local_only(request) if tokens is None else _known(request, tokens, sessions)
        return resolve(api, request, principal)

    def handle(request: Request) -> Answer:
        began = time.monotonic()
        try:
            found = find(request)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            found = _problem(error, request)
        observe(request.method, found.status, time.monotonic() - began)
        return found

    return handle


def make_application(
    handle: Handler, threads: Threads, crowded: Callable[[], bool] = lambda: False
) -> Application:
    """Make the application.

    ``crowded``: too many requests wait for a thread, and new ones are refused at once.
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if (body := await _body(receive)) is not None:
                await _answer(_request(scope, *body), send, receive)
        except asyncio.CancelledError:
            # No thread has begun the request, or the server has ended: nothing is said rather than something wrong.
            scope["state"]["cut"]()

    async def _answer(request: Request, send: Send, receive: Receive) -> None:
        apart = request.path == HEALTH
        if not apart and crowded():
            error = OverloadedError("too many requests wait already", code="too_many_requests")
            found = _encode(_problem(error, request), request)
        else:
            found = await threads.run(lambda: _encode(handle(request), request), apart=apart)
        await send({"type": "http.response.start", "status": found.status, "headers": found.headers})
        if isinstance(found.body, bytes):
            await send({"type": "http.response.body", "body": found.body})
        elif isinstance(found.body, AsyncGenerator):
            await _send_events(found.body, send, receive, shown=request.method != "HEAD")
        else:
            await _send_pieces(threads, found.body, send, receive, shown=request.method != "HEAD")

    return application


async def _body(receive: Receive) -> tuple[bytes, int] | None:
    """Read a body: as many bytes as may be looked at, and how many there were.

    None: the client has gone.
    """
    parts: list[bytes] = []
    count, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part = message.get("body", b"")
        if count <= MAX_BODY:
            parts.append(part[: MAX_BODY + 1 - count])
        count += len(part)
        more = message.get("more_body", False)
    return b"".join(parts), count


def _request(scope: Scope, body: bytes, size: int) -> Request:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        if b"_" not in name:
            word, text = name.decode("latin-1").lower(), value.decode("latin-1")
            headers[word] = f"{headers[word]}, {text}" if word in headers else text
    headers.setdefault("content-type", "")
    headers["content-length"] = str(size) if size else headers.get("content-length", "")
    return Request(
        method=str(scope["method"]).upper(),
        user=partial(user_of, scope.get("client"), scope.get("server")),
        gone=scope["state"]["gone"],
        path=_path(scope["raw_path"]),
        query=_query(scope["query_string"].decode("latin-1")),
        headers=headers,
        body=body,
        request_id=headers.get(REQUEST_ID.lower(), "")[:100] or drawn_name(),
    )


def _path(raw: bytes) -> str:
    """Return the path as it was sent, with its percent-encoding.

    A whole address (``GET http://host/path``, the form for proxies) is reduced to its path.
    """
    path = raw.decode("utf-8", "replace")
    if path.startswith(("http://", "https://")):
        path = "/" + path.partition("://")[2].partition("/")[2]
    return path or "/"


def _query(text: str) -> dict[str, str]:
    """Parse a query; values of a repeated name are joined by commas, as in API Gateway."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _known(request: Request, tokens: Tokens, sessions: BrowserSessions | None) -> Principal | None:
    """Find who asks, by a token or by a browser's session.

    Raises what ``BrowserSessions.find`` raises.
    """
    if request.path == HEALTH:
        return None
    given = request.headers.get("authorization", "")
    if given[: len(BEARER)].lower() == BEARER:
        return tokens.principal(given[len(BEARER) :].strip())
    if given or sessions is None or "cookie" not in request.headers or _begins_session(request):
        return None
    found = sessions.find(request.headers)
    return None if found is None else found[1]


def _begins_session(request: Request) -> bool:
    """Whether an old cookie is about to be replaced."""
    return request.method == "POST" and request.path == "/api/session"


def _local_only(request: Request) -> Principal:
    """Raises ForbiddenError and UnsupportedMediaError."""
    secured = is_open(request)
    check_local(request.headers, secured=secured)
    if not secured:
        check_kind(request.method, request.headers, request.body)
    return LOCAL


def _problem(error: BaseException, request: Request) -> Answer:
    return problem(error, request_id=request.request_id, instance=shown_path(request.path))


def _encode(found: Answer, request: Request) -> _Encoded:
    """Encode an answer for this client.

    No bytes when the client has them, compressed ones when it accepts them.
    """
    # No page takes an answer, whose text the author of a playbook wrote, for a script or a page.
    status, about = found.status, {"Content-Type": found.content_type, "X-Content-Type-Options": "nosniff"}
    body: bytes | Iterable[bytes] | AsyncGenerator[bytes, None]
    if found.events is not None:
        body = found.events
    elif found.content is not None:
        body = b"".join(found.content) if isinstance(found.content, tuple) else found.content
    else:
        body = found.body().encode("utf-8", "surrogatepass")
        if status == 200 and request.method in ("GET", "HEAD") and "Cache-Control" not in found.headers:
            about |= {"ETag": (tag := f'W/"{hashlib.sha256(body).hexdigest()}"'), "Cache-Control": "no-cache"}
            if tag in request.headers.get("if-none-match", ""):
                status, body = 304, b""
        if len(body) > COMPRESSED_FROM and "gzip" in codings(request.headers.get("accept-encoding", "")):
            body = gzip.compress(body, GZIP_LEVEL, mtime=0)
            about |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    if status in (204, 304):
        del about["Content-Type"]
    elif isinstance(body, bytes):
        about |= {"Content-Length": str(len(body))}
    headers = {**about, **found.headers}
    encoded = [
        (name.lower().encode("latin-1"), str(value).encode("latin-1", "replace"))
        for name, value in headers.items()
    ]
    return _Encoded(status, encoded, body)


async def _send_pieces(
    threads: Threads, pieces: Iterable[bytes], send: Send, receive: Receive, *, shown: bool
) -> None:
    """Read a piece in a thread whenever the client has taken most of the last one."""
    reading: Iterator[bytes] = iter(pieces)
    gone = asyncio.ensure_future(receive())
    try:
        while shown and not gone.done() and (piece := await threads.run(partial(next, reading, None))):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    finally:
        gone.cancel()
        if (close := getattr(reading, "close", None)) is not None:
            await threads.run(close)
    await send({"type": "http.response.body", "body": b""})


async def _send_events(
    events: AsyncGenerator[bytes, None], send: Send, receive: Receive, *, shown: bool
) -> None:
    """Send what arrives until it ends or the client has gone."""
    gone = asyncio.ensure_future(receive())
    async with aclosing(events) as arriving:
        try:
            while shown:
                following = asyncio.ensure_future(anext(arriving, None))
                await asyncio.wait({gone, following}, return_when=asyncio.FIRST_COMPLETED)
                if gone.done() or (part := await following) is None:
                    following.cancel()
                    with suppress(asyncio.CancelledError):
                        await following
                    break
                await send({"type": "http.response.body", "body": part, "more_body": True})
        finally:
            gone.cancel()
    await send({"type": "http.response.body", "body": b""})
