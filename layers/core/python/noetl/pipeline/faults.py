"""Exceptions → ``ErrorInfo``: what a playbook sees of something that went wrong."""

from __future__ import annotations

from typing import Any

from noetl.domain.errors import InfrastructureError, NoetlError, TaskError, TemplateError
from noetl.domain.outcomes import ErrorInfo

TEXT_LIMIT = 2000
"""Characters kept of each text among an error's details."""


def error_of(error: NoetlError, source_name: str = "") -> ErrorInfo:
    """The playbook's view of an error. Templates that failed because a large result could not be read show that cause."""
    cause = error.__cause__
    if isinstance(error, TemplateError) and isinstance(cause, (TaskError, InfrastructureError)):
        error = cause
    if isinstance(error, TemplateError):
        return _template_error(error, source_name)
    if isinstance(error, TaskError):
        return ErrorInfo(
            error.message,
            error.kind,
            error.code,
            error.status,
            error.retryable,
            error.hint,
            None,
            error.details,
        )
    kind = "storage_access" if isinstance(error, InfrastructureError) else "schema"
    return ErrorInfo(
        error.message, kind, error.code, None, error.retryable, error.hint, None, _short(error.details)
    )


def _template_error(error: TemplateError, source_name: str) -> ErrorInfo:
    details = _short(error.details)
    line, column = details.pop("line", 0), details.pop("column", 0)
    position = f"{source_name or 'playbook'}:{line}:{column}" if line else None
    return ErrorInfo(error.message, "schema", error.code, None, False, error.hint, position, details)


def _short(details: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if len(value) <= TEXT_LIMIT else value[: TEXT_LIMIT - 1] + "…"
        for name, value in details.items()
        if isinstance(value, str)
    } | {name: value for name, value in details.items() if isinstance(value, (int, float, bool, type(None)))}
