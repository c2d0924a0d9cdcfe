"""Conversion of refusals into errors.

Error families, and so exit codes, are those of the same mistake on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.errors import (
    ConflictError,
    InfrastructureError,
    InvalidInputError,
    NoetlError,
    NotFoundError,
    TaskError,
)
from noetl.domain.text.untrusted_text import escape_block, escape_line
from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError

_FAMILIES: Mapping[int, type[NoetlError]] = {
    400: InvalidInputError,
    404: NotFoundError,
    405: InvalidInputError,
    409: ConflictError,
    410: TaskError,
    413: InvalidInputError,
    422: InvalidInputError,
}
_TEXT = 2000


def error_of(status: int, body: bytes, *, context: str, source_name: str = "") -> NoetlError:
    """Return the error that a refusal reports.

    ``body``: problem+json, or the text of a gateway in between. ``source_name``: the local file of a refused playbook."""
    problem = _mapping(body)
    if isinstance(problem.get("errors"), list):
        found = diagnostics(problem["errors"])
        if found:
            return InvalidPlaybookError(found, source_name=source_name or "playbook")
    family = _FAMILIES.get(status, InfrastructureError)
    message = (
        _text(problem.get("detail") or problem.get("message") or problem.get("Message"))
        or f"answered {status}"
    )
    hint = _text(problem.get("hint")) or None
    details = problem.get("details")
    return family(
        message if "code" in problem else f"{context}: {message}",
        code=_line(problem.get("code")) or _CODES.get(status, f"http_{status}"),
        hint=hint or _HINTS.get(status),
        retryable=bool(problem.get("retryable", status in (429, 502, 503, 504))),
        details=details if isinstance(details, Mapping) else None,
    )


_CODES = {401: "unauthenticated", 403: "forbidden", 404: "route_not_found"}
_HINTS = {
    401: "`noetl context list` shows how requests sign in; `noetl context add NAME --url URL --token-file FILE` (or --iam) changes it",
    403: "`noetl context list` shows how requests sign in; the address may lack its stage",
}


def diagnostics(found: list[Any]) -> list[Diagnostic]:
    """What the server says about a playbook (its ``Finding``)."""
    read = []
    for one in found:
        if isinstance(one, Mapping):
            read.append(
                Diagnostic(
                    _line(one.get("code")),
                    _line(one.get("message")),
                    _number(one.get("line")),
                    _number(one.get("column")),
                    "warning" if one.get("severity") == "warning" else "error",
                    _line(one.get("fix")) or None,
                    _line(one.get("path")),
                )
            )
    return read


def not_understood(context: str, what: object) -> InfrastructureError:
    """The server (or something between) answered what no version of the API does."""
    return InfrastructureError(
        f"{context}: the answer is not one of this API: {_text(str(what))}",
        code="answer_invalid",
        hint="does the context's address lead to noetl? `noetl context list`",
        retryable=False,
    )


def _mapping(body: bytes) -> Mapping[str, Any]:
    try:
        found = codec.decode(body)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _text(value: Any) -> str:
    """Return a server's text without the characters that control a terminal."""
    return escape_block(value[:_TEXT]) if isinstance(value, str) else ""


def _line(value: Any) -> str:
    """The same for what is one line among others."""
    return escape_line(value[:_TEXT]) if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 1
