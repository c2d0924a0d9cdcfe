"""The routes behind API Gateway (HTTP API, payload format 2.0)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from noetl.api.deps import MAX_ANSWER
from noetl.api.http.access import principal_of
from noetl.api.http.dispatch import Api, resolve
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import refusal

Event = dict[str, Any]


def make_resolver(api: Api) -> Callable[[Event, Any], dict[str, Any]]:
    """``(event, context) -> response`` for all routes."""

    def handle(event: Event, context: Any) -> dict[str, Any]:
        about = event.get("requestContext") or {}
        principal = principal_of(api.auth, about.get("authorizer") or {}, api.grants, api.workers)
        request = _request(event, about)
        return _response(resolve(api, request, principal), shown=request.method != "HEAD")

    return handle


def _request(event: Event, about: Event) -> Request:
    return Request(
        method=str((about.get("http") or {}).get("method") or "GET").upper(),
        path=_path(event, about),
        query=event.get("queryStringParameters") or {},
        headers={str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()},
        body=_body(event),
        request_id=str(about.get("requestId") or ""),
        base=str(about.get("base") or ""),
    )


def _path(event: Event, about: Event) -> str:
    """Return the path without the stage, which precedes it unless it is the default one."""
    path = str(event.get("rawPath") or "/")
    stage = about.get("stage") or "$default"
    return path if stage == "$default" else path.removeprefix(f"/{stage}") or "/"


def _body(event: Event) -> bytes:
    """Return the bytes of a body; text that is not valid base64 is returned unchanged."""
    text = event.get("body") or ""
    if event.get("isBase64Encoded"):
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return str(text).encode("utf-8", "surrogatepass")
    return str(text).encode("utf-8", "surrogatepass")


def _response(found: Answer, *, shown: bool) -> dict[str, Any]:
    if found.content is not None:
        return _bytes_response(found, b"".join(found.content) if shown else b"")
    return {
        "statusCode": found.status,
        "headers": {"Content-Type": found.content_type, **found.headers},
        "body": found.body() if shown else "",
        "isBase64Encoded": False,
        "cookies": [],
    }


def _bytes_response(found: Answer, data: bytes) -> dict[str, Any]:
    text = base64.b64encode(data).decode()
    if len(text) > MAX_ANSWER:
        too_large = refusal(413, "answer_too_large", "the bytes do not fit into an answer", "")
        return _response(too_large, shown=True)
    return {
        "statusCode": found.status,
        "headers": {"Content-Type": found.content_type, **found.headers},
        "body": text,
        "isBase64Encoded": True,
        "cookies": [],
    }
