"""One HTTP request and its answer: redirects followed by hand, sizes and times bounded.

urllib3 would follow redirects on its own; here every hop is read, checked and connected to like the first, and
credentials stay with the origin they were meant for.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import secrets
import ssl
import time
from collections.abc import Callable, Container, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace

import urllib3
from urllib3.exceptions import (
    DecodeError,
    HTTPError,
    InvalidHeader,
    NewConnectionError,
    ProtocolError,
    SSLError,
)
from urllib3.exceptions import (
    TimeoutError as Urllib3TimeoutError,
)
from urllib3.response import BaseHTTPResponse

from noetl.domain.errors import TaskError
from noetl.kinds.http.connection import Exchange, Key, pool_of
from noetl.kinds.http.content_encoding import decoded
from noetl.kinds.support.call_deadline import CallDeadline
from noetl.kinds.support.net_guard import Allowed, Target, joined

MAX_REDIRECTS = 5
MAX_HEADER_BYTES = 64 * 1024
ERROR_BODY_BYTES = 64 * 1024
"""Of a failed call's body this much is read; the rest is dropped with the connection."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_IDEMPOTENT = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"})
_DIGEST_KEY = secrets.token_bytes(32)
_CHUNK = 64 * 1024
_CREDENTIAL_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})
_BODY_HEADERS = frozenset({"content-type", "content-encoding", "content-language"})


@dataclass(frozen=True, slots=True)
class Streamed:
    """A body that is never whole in memory.

    ``pieces``: from its beginning, as often as it is sent.
    """

    size: int
    pieces: Callable[[], Generator[bytes]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to send.

    ``secret_headers``: further (lower-case) names that must not leave the first origin.
    """

    method: str
    url: Target
    headers: Mapping[str, str]
    body: bytes | Streamed | None = None
    secret_headers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes. ``total`` is the whole call, redirects included."""

    total: float
    connect: float
    read: float
    body_bytes: int
    allowed: Allowed = field(default_factory=Allowed)
    accepted: Container[int] = ()
    """Statuses of 400 and above with which the call does not fail."""

    def fails(self, status: int) -> bool:
        """Return whether a call fails with an answer of 400 and above."""
        return status >= 400 and status not in self.accepted


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the last hop.

    Header names are lower case; repeated ones are joined by ``, ``.
    """

    status: int
    headers: Mapping[str, str]
    url: str
    body: bytes
    truncated: bool = False
    """True when only the beginning of a failed call's body was read."""


Take = Callable[[Answer, Iterator[bytes]], None]
"""Is given an answer without its body, and the decoded body in pieces."""


def send(request: Request, limits: Limits, *, follow_redirects: bool, take: Take | None = None) -> Answer:
    """Make the call. Any status is an Answer.

    ``take``: receives the body of a call that did not fail, instead of the Answer.

    Raises TaskError: kind ``connection`` or ``timeout`` (retryable), ``client_error`` (``address_refused``,
    ``url_invalid``, ``too_many_redirects``), ``storage_quota`` (``response_too_large``), ``server_error``
    (``bad_response``), ``parse`` (``content_encoding``).
    """
    deadline = time.monotonic() + limits.total
    with (
        Exchange(limits.allowed, deadline, limits.connect) as exchange,
        CallDeadline(deadline, exchange.cut) as alarm,
    ):
        try:
            answer = _follow(request, limits, MAX_REDIRECTS if follow_redirects else 0, take, exchange)
        except TaskError as error:
            # Once time is up the cut connection fails in many ways; only one of them is the reason.
            if alarm.rang and error.kind != "client_error":
                raise _too_slow(request, limits) from error
            raise
        if alarm.rang:
            raise _too_slow(request, limits)
        return answer


def _follow(
    request: Request, limits: Limits, redirects: int, take: Take | None, exchange: Exchange
) -> Answer:
    hops = [request.url.url]
    while True:
        try:
            answer, location = _hop(request, limits, take, exchange, follow=redirects > 0)
        except TaskError as error:
            if len(hops) > 1:
                error.details.setdefault("redirects", hops)
            raise
        if location is None:
            return answer
        if len(hops) > redirects:
            raise TaskError(
                f"{hops[0]} redirects more than {redirects} times",
                kind="client_error",
                code="too_many_redirects",
                status=answer.status,
                details={"redirects": hops},
            )
        try:
            request = _redirected(request, answer.status, location)
        except TaskError as error:
            error.message = f"{hops[-1]} redirects to a URL that cannot be followed: {error.message}"
            error.details.setdefault("redirects", hops)
            raise
        hops.append(request.url.url)


def _redirected(request: Request, status: int, location: str) -> Request:
    """Make the next request of a redirect, as browsers do.

    303 and a redirected POST become a GET without a body.
    """
    url = joined(request.url.url, location)
    if url.origin != request.url.origin:
        request = without_credentials(request)
    if (status == 303 and request.method != "HEAD") or (status in (301, 302) and request.method == "POST"):
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in _BODY_HEADERS
        }
        request = replace(request, method="GET", headers=headers, body=None)
    return replace(request, url=url)


def without_credentials(request: Request) -> Request:
    """Return the request without credentials, for an origin they were not meant for."""
    secret = _CREDENTIAL_HEADERS | request.secret_headers
    return replace(
        request,
        headers={name: value for name, value in request.headers.items() if name.lower() not in secret},
    )


def _hop(
    request: Request, limits: Limits, take: Take | None, exchange: Exchange, *, follow: bool
) -> tuple[Answer, str | None]:
    """Send one request; return the answer, and the redirect that is to be followed."""
    try:
        response = _responded(request, limits, exchange)
        try:
            return _read(request, response, limits, follow, take)
        finally:
            # A body read to its end has given its connection back; any other connection cannot be used again.
            response.close()
    except (HTTPError, http.client.HTTPException, OSError, ValueError) as error:
        raise _failed(request, error, limits) from error


def _responded(request: Request, limits: Limits, exchange: Exchange) -> BaseHTTPResponse:
    """Send the request; once more over a new connection where a kept one had come to its end.

    A server may hang up a kept connection at any moment. What it has begun to answer, and what may not be done twice, is
    sent once.
    """
    exchange.only_new = False
    try:
        return _sent(request, limits)
    except ProtocolError as error:
        if request.method not in _IDEMPOTENT or not exchange.was_stale or _is_malformed(error):
            raise
    exchange.only_new = True
    return _sent(request, limits)


def _sent(request: Request, limits: Limits) -> BaseHTTPResponse:
    headers = {"Host": request.url.authority, **request.headers}
    if isinstance(request.body, Streamed):
        headers["Content-Length"] = str(request.body.size)
    pool = pool_of(Key(limits.allowed, *request.url.origin, _owner(request)))
    with _opened(request.body) as body:
        return pool.urlopen(
            request.method,
            request.url.path,
            body=body,
            headers=headers,
            retries=False,
            redirect=False,
            assert_same_host=False,
            preload_content=False,
            decode_content=False,
            timeout=urllib3.Timeout(connect=limits.connect, read=limits.read),
        )


def _owner(request: Request) -> bytes:
    """Return a digest of the credentials that the request carries; empty without any.

    The digest reveals nothing of them.
    """
    secret = _CREDENTIAL_HEADERS | request.secret_headers
    carried = sorted(
        (name.lower(), value) for name, value in request.headers.items() if name.lower() in secret
    )
    if not carried:
        return b""
    return hashlib.blake2b(repr(carried).encode(), key=_DIGEST_KEY, digest_size=16).digest()


@contextlib.contextmanager
def _opened(body: bytes | Streamed | None) -> Iterator[bytes | Generator[bytes] | None]:
    """Open the body for urllib3.

    A body that was not sent to its end is closed, with what it reads from.
    """
    if not isinstance(body, Streamed):
        yield body
        return
    with contextlib.closing(body.pieces()) as pieces:
        yield pieces


def _read(
    request: Request, response: BaseHTTPResponse, limits: Limits, follow: bool, take: Take | None
) -> tuple[Answer, str | None]:
    headers = {name.lower(): ", ".join(response.headers.getlist(name)) for name in response.headers}
    size = sum(len(name) + len(value) + 4 for name, value in headers.items())
    if size > MAX_HEADER_BYTES:
        raise TaskError(
            f"{request.url.url} answered with {size} bytes of headers, at most {MAX_HEADER_BYTES} are allowed",
            kind="server_error",
            code="headers_too_large",
            status=response.status,
        )
    location = headers.get("location") if follow and response.status in REDIRECTS else None
    if location:
        return Answer(response.status, headers, request.url.url, b""), _utf8(location)
    failed = limits.fails(response.status)
    answer = Answer(response.status, headers, request.url.url, b"")
    if failed:
        body, truncated = _beginning(response)
        return replace(answer, body=body, truncated=truncated), None
    pieces = _pieces(request, response, limits.body_bytes)
    if take is None:
        return replace(answer, body=b"".join(pieces)), None
    take(answer, pieces)
    return answer, None


def _utf8(location: str) -> str:
    """Headers arrive as Latin-1; servers that put raw UTF-8 into Location mean UTF-8."""
    try:
        return location.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return location


def _beginning(response: BaseHTTPResponse) -> tuple[bytes, bool]:
    """Read the part of a failed call's body that is kept; report whether there was more."""
    found = b""
    try:
        for piece in _body(response):
            found += piece
            if len(found) > ERROR_BODY_BYTES:
                return found[:ERROR_BODY_BYTES], True
    except (DecodeError, ProtocolError):
        # What failed is told by the status; a body that breaks off does not make another failure of it.
        return found, True
    return found, False


def _body(response: BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the decoded body. Raises DecodeError; ProtocolError: it was cut off."""
    raw = response.stream(_CHUNK, decode_content=False)
    return decoded(raw, ", ".join(response.headers.getlist("content-encoding")))


def _pieces(request: Request, response: BaseHTTPResponse, limit: int) -> Iterator[bytes]:
    """Yield the decoded body, never more than ``limit`` bytes of it.

    A body that is announced as larger is not read at all.
    """
    declared = response.headers.get("content-length", "")
    bare = request.method == "HEAD" or response.status == 304
    size = (
        int(declared) if not bare and declared.isascii() and declared.isdigit() and len(declared) < 20 else 0
    )
    if size <= limit:
        size = 0
        for piece in _body(response):
            size += len(piece)
            if size > limit:
                break
            yield piece
    if size > limit:
        raise TaskError(
            f"{request.url.url} answered with more than the {limit} bytes a response may have",
            kind="storage_quota",
            code="response_too_large",
            status=response.status,
            hint="ask for less (a page, a range), stream it (`stream: true`), or raise the deployment's limit",
            details={"limit": limit, "declared": declared or None},
        )


def _too_slow(request: Request, limits: Limits) -> TaskError:
    return TaskError(
        f"{request.method} {request.url.url} took longer than {limits.total:g} s",
        kind="timeout",
        code="timeout",
        retryable=True,
    )


def _failed(request: Request, error: Exception, limits: Limits) -> TaskError:
    where = f"{request.method} {request.url.url}"
    if isinstance(error, (NewConnectionError, Urllib3TimeoutError, TimeoutError)):
        return TaskError(
            f"{where}: no answer within {limits.read:g} s",
            kind="timeout",
            code="read_timeout",
            retryable=True,
        )
    if isinstance(error, (SSLError, ssl.SSLError)):
        return TaskError(
            f"{where}: no trusted TLS connection: {_reason(error)}", kind="connection", code="tls_failed"
        )
    if isinstance(error, DecodeError):
        return TaskError(
            f"{where}: the body is not in the encoding its header names: {_reason(error)}",
            kind="parse",
            code="content_encoding",
        )
    if isinstance(error, (InvalidHeader, http.client.HTTPException)) or _is_malformed(error):
        return TaskError(
            f"{where}: the answer is not HTTP: {_reason(error)}", kind="server_error", code="bad_response"
        )
    if isinstance(error, (ProtocolError, OSError)):
        return TaskError(
            f"{where}: the connection broke: {_reason(error)}",
            kind="connection",
            code="connection_lost",
            retryable=True,
        )
    return TaskError(f"{where}: {_reason(error)}", kind="client_error", code="request_invalid")


def _is_malformed(error: Exception) -> bool:
    cause = error.args[-1] if isinstance(error, ProtocolError) and error.args else None
    # A server that hangs up without a word is a lost connection, although http.client calls it a bad status.
    return isinstance(cause, http.client.HTTPException) and not isinstance(
        cause, (http.client.RemoteDisconnected, http.client.IncompleteRead)
    )


def _reason(error: Exception) -> str:
    text = str(error.args[-1]) if error.args else str(error)
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
