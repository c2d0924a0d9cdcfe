"""The client of the REST API.

It sends one request at a time, and retries while the server is unavailable.

A refusal raises the error that the same mistake raises on this machine.

What changes something carries an idempotency key, so a repeat of a request whose answer was lost is the same request.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError

from noetl.cli.client.http_problems import error_of, not_understood
from noetl.cli.client.profiles import Context
from noetl.cli.client.signing import Sign, signer
from noetl.domain import codec
from noetl.domain.errors import ConflictError, InfrastructureError, InvalidInputError, NoetlError

T = TypeVar("T")
E = TypeVar("E")

PAGE = 500
"""Entries that are asked for at once."""
PATIENCE = 60.0
"""Seconds that a server may be unavailable (503, no connection) before a command fails."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
LONGEST_RETRY_AFTER = 60.0
"""A ``Retry-After`` beyond this is not waited for."""
TIMEOUT = urllib3.Timeout(connect=10.0, read=60.0)
_PASSING = frozenset({429, 502, 503, 504})


class Reply(Protocol):
    """The reply of a transport. ``data``: the whole body."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def data(self) -> bytes: ...
    def read(self, amt: int, /) -> bytes:
        """The next bytes of the body, instead of ``data``."""

    def close(self) -> None: ...


Send = Callable[[str, str, Mapping[str, str], bytes | None], Reply]
"""(method, url, headers, body) → reply; raises urllib3's HTTPError when no server answers. Redirects are answers: they are not followed."""


class Client:
    """``send``, ``sleep`` and ``clock`` are replaced in tests."""

    def __init__(
        self,
        context: Context,
        *,
        sign: Sign | None = None,
        send: Send | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE,
    ) -> None:
        self.context = context
        self._sign = sign or signer(context)
        self._send = send or transport(context.url)
        self._sleep, self._clock, self._patience = sleep, clock, patience

    def get(self, path: str, shape: type[T], /, **query: Any) -> T:
        """Return the JSON of a GET.

        Raises the error that the refusal reports; InfrastructureError when no NoETL API answers.
        """
        return self._read(self.request("GET", path, query=query), shape)

    def post(
        self, path: str, shape: type[T], body: Mapping[str, Any], *, source_name: str = "", key: str = ""
    ) -> T:
        """As ``get``. Repeats are the same request; ``key``: so are others under it."""
        return self._read(self.request("POST", path, body, source_name=source_name, key=key), shape)

    def patch(self, path: str, shape: type[T], body: Mapping[str, Any]) -> T:
        return self._read(self.request("PATCH", path, body), shape)

    def put(self, path: str, shape: type[T], body: Mapping[str, Any]) -> T:
        return self._read(self.request("PUT", path, body), shape)

    def delete(self, path: str, shape: type[T]) -> T:
        return self._read(self.request("DELETE", path), shape)

    def pages(self, path: str, shape: type[T], /, **query: Any) -> Iterator[T]:
        """Pages of a list (each has ``next``), until the last."""
        while True:
            page = self.get(path, shape, **query)
            yield page
            after = getattr(page, "next", None)
            if not after:
                return
            query = {**query, "after": after}

    def entries(
        self, path: str, shape: type[T], of: Callable[[T], Sequence[E]], limit: int, /, **query: Any
    ) -> list[E]:
        """What the pages of a list hold, at most ``limit``."""
        found: list[E] = []
        for page in self.pages(path, shape, limit=min(limit, PAGE), **query):
            found += of(page)
            if len(found) >= limit:
                break
        return found[:limit]

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        source_name: str = "",
        key: str = "",
    ) -> bytes:
        """The body of the answer."""
        params = {name: value for name, value in (query or {}).items() if value is not None}
        words = urlencode(params, quote_via=quote, errors="surrogatepass")
        url = f"{self.context.url}{path}{f'?{words}' if words else ''}"
        headers = {"Accept": "application/json", "User-Agent": "noetl-cli"}
        data = None
        if body is not None:
            data = codec.encode(body)
            headers |= {"Content-Type": "application/json", "Idempotency-Key": key or secrets.token_hex(16)}
        return self._patiently(method, url, headers, data, source_name).data

    def download(self, url: str) -> bytes:
        """Download a link. The link is the permission, so no credentials are sent."""
        return self._patiently("GET", url, {}, None, "", signed=False).data

    def open(self, url: str) -> Reply:
        """The same, to be read piece by piece."""
        return self._patiently("GET", url, {}, None, "", signed=False, whole=False)

    def _patiently(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        data: bytes | None,
        source_name: str,
        *,
        signed: bool = True,
        whole: bool = True,
    ) -> Reply:
        until = self._clock() + self._patience
        pause = FIRST_PAUSE
        while True:
            retry_after: float | None = None
            try:
                sent = self._sign(method, url, headers, data) if signed else headers
                reply = self._send(method, url, sent, data)
                if whole or not 200 <= reply.status < 300:
                    _ = reply.data
            except HTTPError as failure:
                error = self._unreachable(failure)
            else:
                if 200 <= reply.status < 300:
                    return reply
                error = error_of(reply.status, reply.data, context=self.context.name, source_name=source_name)
                if not _passes(reply.status, error):
                    raise error
                retry_after = _retry_after(reply.headers)
            wait = pause * random.uniform(0.5, 1.0) if retry_after is None else retry_after
            if wait > LONGEST_RETRY_AFTER or self._clock() + wait > until:
                raise error
            self._sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _unreachable(self, failure: HTTPError) -> NoetlError:
        """Return an error with the cause alone; the caller may repeat the request."""
        reason = getattr(failure, "reason", None) or failure
        return InfrastructureError(
            f"{self.context.name} ({self.context.url}) does not answer: {_plain(reason)}",
            code="server_unreachable",
            hint="is it up, and its address right? `noetl context list`",
        )

    def _read(self, data: bytes, shape: type[T]) -> T:
        try:
            return codec.decode_as(codec.decoder(shape), data)
        except ValueError as error:
            raise not_understood(self.context.name, error) from error


def segment(text: str) -> str:
    """As one part of a path.

    Raises InvalidInputError(code="name_invalid") for what an address cannot hold.
    """
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{text[:80]!r} is no name: it has bytes that are no UTF-8",
            code="name_invalid",
            hint="nothing at a server has such a name",
        ) from error


def transport(url: str) -> Send:
    """Over HTTP, by the proxy that the environment names. Certificates are checked."""
    proxy = _proxy(url)
    pool: urllib3.PoolManager = urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager()

    def send(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        return pool.request(
            method,
            url,
            headers=headers,
            body=body,
            timeout=TIMEOUT,
            retries=False,
            redirect=False,
            preload_content=False,
        )

    return send


def _proxy(url: str) -> str | None:
    parts = urllib3.util.parse_url(url)
    host = parts.host or ""
    return None if proxy_bypass(host) else getproxies().get(parts.scheme or "")


def _passes(status: int, error: NoetlError) -> bool:
    return status in _PASSING or (isinstance(error, ConflictError) and error.retryable)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; a date, or anything else, says nothing."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _plain(reason: object) -> str:
    text = str(reason)
    return text.rpartition(": ")[2][:300] if "object at 0x" in text else text[:300]
