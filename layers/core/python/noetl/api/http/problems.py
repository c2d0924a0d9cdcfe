"""Errors as ``application/problem+json`` (RFC 9457), from one table for every route."""

from __future__ import annotations

from typing import Any

from noetl.api.http.exchange import PROBLEM, Answer
from noetl.domain.errors import (
    ConflictError,
    GoneError,
    InfrastructureError,
    InvalidInputError,
    NoetlError,
    NotFoundError,
    OverloadedError,
    PlaybookError,
    TaskError,
)
from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError

RETRY_SECONDS = 1
"""What ``Retry-After`` says about conflicts that pass, and about outages."""
_SHOWN = 500
"""Characters of a request's path in its problem."""


class BadRequestError(InvalidInputError):
    """The request itself cannot be read: body, cursor, id, parameter."""

    default_code = "bad_request"


class BodyTooLargeError(InvalidInputError):
    default_code = "body_too_large"


class EncodingError(InvalidInputError):
    """The body is compressed, or otherwise wrapped."""

    default_code = "content_encoding_unsupported"


class UnsupportedMediaError(InvalidInputError):
    """The body says that it is of a kind that is not read here."""

    default_code = "unsupported_media_type"


class UnauthenticatedError(NoetlError):
    """The request is not authenticated."""

    default_code = "unauthenticated"


class ForbiddenError(NoetlError):
    """The caller has no permission."""

    default_code = "forbidden"


class MethodError(NoetlError):
    """The resource has other methods; ``details["allow"]`` lists them."""

    default_code = "method_not_allowed"


FAMILIES: tuple[tuple[type[NoetlError], int, str], ...] = (
    (BadRequestError, 400, "Bad request"),
    (BodyTooLargeError, 413, "Body too large"),
    (EncodingError, 415, "Unsupported content encoding"),
    (UnsupportedMediaError, 415, "Unsupported media type"),
    (UnauthenticatedError, 401, "Not authenticated"),
    (ForbiddenError, 403, "Forbidden"),
    (MethodError, 405, "Method not allowed"),
    (PlaybookError, 422, "Invalid playbook"),
    (InvalidInputError, 422, "Invalid input"),
    (NotFoundError, 404, "Not found"),
    (GoneError, 410, "Gone"),
    (ConflictError, 409, "Conflict"),
    (TaskError, 410, "Gone"),
    (OverloadedError, 429, "Too much at once"),
    (InfrastructureError, 503, "Temporarily unavailable"),
)
"""First match wins. A TaskError that reaches a reader is a result whose bytes are gone or damaged."""


def problem(error: BaseException, *, request_id: str = "", instance: str = "") -> Answer:
    """Return an error as an answer; an unexpected error is reported without its text."""
    status, title = _family(error)
    if not isinstance(error, NoetlError):
        body = _body("internal_error", title, status, "the server failed unexpectedly; its log has the cause")
    else:
        body = _body(error.code, title, status, error.message)
        body |= {"hint": error.hint, "retryable": error.retryable}
        if isinstance(error, InvalidPlaybookError):
            body["errors"] = [diagnostic(one, error.source_name) for one in error.diagnostics]
        elif error.details:
            body["details"] = error.details
    body |= {"instance": instance[:_SHOWN] or None, "request_id": request_id or None}
    return Answer(
        status,
        {key: value for key, value in body.items() if value is not None},
        headers=_headers(error, status),
        content_type=PROBLEM,
    )


def refusal(
    status: int,
    code: str,
    detail: str,
    request_id: str,
    *,
    hint: str | None = None,
    details: dict[str, Any] | None = None,
) -> Answer:
    """Return the answer to a request that could not be read as HTTP."""
    body = _body(code, "Refused", status, detail) | {"retryable": False, "request_id": request_id}
    body |= {name: value for name, value in (("hint", hint), ("details", details)) if value}
    return Answer(status, body, content_type=PROBLEM)


def diagnostic(found: Diagnostic, source_name: str) -> dict[str, Any]:
    """Return one problem of a playbook: its place, text and ``fix``.

    ``location`` is ``file:line:column``.
    """
    return {
        "location": f"{source_name}:{found.line}:{found.column}",
        "line": found.line,
        "column": found.column,
        "severity": found.severity,
        "code": found.code,
        "message": found.message,
        "fix": found.hint,
        "path": found.path or None,
    }


def _family(error: BaseException) -> tuple[int, str]:
    for family, status, title in FAMILIES:
        if isinstance(error, family):
            if status == 503 and isinstance(error, NoetlError) and not error.retryable:
                return 500, "Internal error"
            return status, title
    return 500, "Internal error"


def _body(code: str, title: str, status: int, detail: str) -> dict[str, Any]:
    return {
        "type": f"urn:noetl:problem:{code}",
        "title": title,
        "status": status,
        "code": code,
        "detail": detail,
    }


def _headers(error: BaseException, status: int) -> dict[str, str]:
    headers = {}
    if isinstance(error, NoetlError) and error.retryable and status in (409, 429, 503):
        headers["Retry-After"] = str(error.details.get("retry_after", RETRY_SECONDS))
    if isinstance(error, MethodError):
        headers["Allow"] = ", ".join(error.details["allow"])
    return headers
