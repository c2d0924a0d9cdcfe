"""Exceptions → ``ErrorInfo``: what a playbook sees of something that went wrong."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.domain.errors import InfrastructureError, NoetlError, TaskError, TemplateError
from noetl.domain.outcomes import ErrorInfo
from noetl.dsl.program import Pos, Task

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


def placed(error: ErrorInfo, task: Task, source_name: str) -> ErrorInfo:
    """The error of a kind that tells a ``line`` (and ``column``) of the task's raw text, with that place in the playbook."""
    line, place = error.details.get("line"), task.code_pos
    if error.position is not None or not place.line or not isinstance(line, int):
        return error
    if task.code_lines:
        place = Pos(place.line + line - 1, place.column + error.details.get("column", 1) - 1)
    position = f"{source_name or 'playbook'}:{place.line}:{place.column}"
    return msgspec.structs.replace(error, position=position)


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
