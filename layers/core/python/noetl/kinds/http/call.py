"""From a task's parameters to the call that is made, and the bounds of what comes back."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.kinds.http.body import body_from, multipart
from noetl.kinds.http.client import MAX_HEADER_BYTES, Limits, Request, Streamed
from noetl.kinds.http.params import Params, Timeouts
from noetl.kinds.http.request import Headers, add_auth, encode_body, with_query
from noetl.kinds.support.net_guard import Target, allowed_of, parse_url

CONNECT_TIMEOUT = 10.0
_DEFAULTS = {"User-Agent": "noetl", "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}


def refuse_oversized(result: dict[str, Any], body_bytes: int, limit: int) -> None:
    """Refuse a result that is too large as the JSON it becomes.

    Escapes make a byte of the body at most six.
    """
    if body_bytes * 6 < limit - 2 * MAX_HEADER_BYTES:
        return
    size = len(codec.encode(result))
    if size > limit:
        raise TaskError(
            f"the answer takes {size} bytes as a result, at most {limit} are allowed",
            kind="storage_quota",
            code="result_too_large",
            details={"size": size, "limit": limit},
        )


def accepted_of(given: Any) -> Container[int]:
    """Return the statuses of 400 and above that ``accept_status`` names."""
    return range(400, 1000) if given == "any" else tuple(given or ())


def request_of(params: Params, context: TaskContext) -> Request:
    """Build the request of a task's parameters. Raises TaskError."""
    url = parse_url(params.url)
    if params.params:
        url = Target(url.scheme, url.host, url.port, with_query(url.path, params.params))
    headers = Headers()
    for name, value in (params.headers or {}).items():
        if value is not None:
            headers.set(name, value)
    secret = add_auth(params.auth, headers, context) if params.auth else frozenset()
    body = _body(params, headers, context)
    headers.default("Idempotency-Key", context.idempotency_key)
    headers.complete(_DEFAULTS)
    return Request(params.method, url, headers.as_dict(), body, secret)


def _body(params: Params, headers: Headers, context: TaskContext) -> bytes | Streamed | None:
    if params.multipart is not None:
        return multipart(params.multipart, headers, context)
    if params.body_from is not None:
        return body_from(params.body_from, headers, context)
    return encode_body(params.body, params.form, headers)


def limits_of(params: Params, context: TaskContext, *, streamed: bool) -> Limits:
    """Return the limits of a call. ``streamed``: the body goes to the result store."""
    given, settings = params.timeout, context.settings
    total = min(context.timeout, given) if isinstance(given, float) else context.timeout
    own = given if isinstance(given, Timeouts) else Timeouts()
    return Limits(
        total=total,
        connect=min(own.connect or CONNECT_TIMEOUT, total),
        read=min(own.read or total, total),
        body_bytes=settings.artifact_max_bytes if streamed else settings.http_max_bytes,
        allowed=allowed_of(tuple(settings.http_allow)),
        accepted=accepted_of(params.accept_status),
    )
