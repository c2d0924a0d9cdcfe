"""The routes as a WSGI application: what ``noetl serve`` puts behind its HTTP server."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qsl

from noetl.api.deps import MAX_BODY
from noetl.api.http.access import LOCAL
from noetl.api.http.dispatch import REQUEST_ID, Api, is_open, resolve
from noetl.api.http.exchange import Answer, Principal, Request
from noetl.api.http.problems import problem
from noetl.api.http.same_origin import check_kind, check_local
from noetl.domain.callbacks import shown_path
from noetl.domain.errors import OverloadedError

Environ = Mapping[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]
BEARER = "bearer "
HEALTH = "/health"
_REASONS = {
    200: "OK",
    201: "Created",
    202: "Accepted",
    204: "No Content",
    302: "Found",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    410: "Gone",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Tokens(Protocol):
    def principal(self, token: str) -> Principal | None:
        """Whom a bearer token stands for."""


def _unobserved(method: str, status: int, seconds: float) -> None:
    """Nobody counts requests."""


def make_application(
    api: Api,
    tokens: Tokens | None,
    observe: Callable[[str, int, float], None] = _unobserved,
    crowded: Callable[[], bool] = lambda: False,
) -> Application:
    """Make the application.

    ``tokens`` None: programs of this machine may do everything, pages that its browsers show nothing (see ``same_origin``). ``observe`` is
    told method, status and seconds of each request. ``crowded``: too many requests wait for an answer, and new ones are refused at once.
    """

    def handle(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        began = time.monotonic()
        request = _request(environ)
        try:
            if request.path != HEALTH and crowded():
                raise OverloadedError("too many requests wait already", code="too_many_requests")
            principal = _local_only(request) if tokens is None else _bearer(request, tokens)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            found = problem(error, request_id=request.request_id, instance=shown_path(request.path))
        else:
            found = resolve(api, request, principal)
        observe(request.method, found.status, time.monotonic() - began)
        return _send(found, start_response, shown=request.method != "HEAD")

    return handle


def _request(environ: Environ) -> Request:
    headers = {
        name[5:].replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    headers["content-type"] = str(environ.get("CONTENT_TYPE") or "")
    headers["content-length"] = str(environ.get("CONTENT_LENGTH") or "")
    return Request(
        method=str(environ.get("REQUEST_METHOD") or "GET").upper(),
        path=_path(environ),
        query=_query(str(environ.get("QUERY_STRING") or "")),
        headers=headers,
        body=environ["wsgi.input"].read(MAX_BODY + 1),
        request_id=headers.get(REQUEST_ID.lower(), "")[:100] or secrets.token_hex(8),
    )


def _path(environ: Environ) -> str:
    """As it was sent, percent-encoding and all; of a whole address (``GET http://host/path``, as proxies are asked) the path."""
    path = (_text(environ.get("REQUEST_URI")) or _text(environ.get("PATH_INFO"))).partition("?")[0]
    if path.startswith(("http://", "https://")):
        path = "/" + path.partition("://")[2].partition("/")[2]
    return path or "/"


def _query(text: str) -> dict[str, str]:
    """A name that comes twice has both values, with a comma, as API Gateway gives them."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _text(value: Any) -> str:
    """WSGI gives bytes as if they were Latin-1."""
    return str(value or "").encode("latin-1", "replace").decode("utf-8", "replace")


def _bearer(request: Request, tokens: Tokens) -> Principal | None:
    given = request.headers.get("authorization", "")
    if given[: len(BEARER)].lower() != BEARER or request.path == HEALTH:
        return None
    return tokens.principal(given[len(BEARER) :].strip())


def _local_only(request: Request) -> Principal:
    """Raises ForbiddenError and UnsupportedMediaError."""
    secured = is_open(request)
    check_local(request.headers, secured=secured)
    if not secured:
        check_kind(request.method, request.headers, request.body)
    return LOCAL


def _send(found: Answer, start_response: StartResponse, *, shown: bool) -> Iterable[bytes]:
    """``shown`` False: everything but the content itself."""
    status = f"{found.status} {_REASONS.get(found.status, 'Status')}"
    if found.content is not None:
        start_response(status, [("Content-Type", found.content_type), *found.headers.items()])
        return found.content if shown else []
    content = found.body().encode("utf-8", "surrogatepass")
    about = {"Content-Type": found.content_type, "Content-Length": str(len(content))}
    headers = {**(about if found.status != 204 else {}), **found.headers}
    start_response(status, [(name, str(value)) for name, value in headers.items()])
    return [content] if shown and content else []
