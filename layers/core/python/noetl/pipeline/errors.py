"""Conversion of exceptions to ``ErrorInfo``, the form in which a playbook sees errors."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.domain.errors import InfrastructureError, NoetlError, TaskError, TemplateError
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.text.excerpt import excerpt
from noetl.dsl.program import Expr, Map, Node, Pos, Seq, Sql, Task, Text

TEXT_LIMIT = 2000
"""Characters kept of each text among an error's details."""


def error_of(error: NoetlError, source_name: str = "") -> ErrorInfo:
    """Convert an exception to the playbook's view of it.

    Templates that failed because a large result could not be read show that cause.
    """
    cause = error.__cause__
    if isinstance(error, TemplateError) and isinstance(cause, (TaskError, InfrastructureError)):
        error = cause
    if isinstance(error, TemplateError):
        return _error_info(error, "schema", source_name, retryable=False)
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
    return _error_info(error, kind, source_name, retryable=error.retryable)


def placed(error: ErrorInfo, task: Task, source_name: str) -> ErrorInfo:
    """Return an error with its place in the playbook.

    The line of the task's code, the parameter that does not fit, else the task itself.
    """
    if error.position is not None:
        return error
    place = _in_code(error, task) or _in_params(error, task) or task.pos
    return positioned(error, place, source_name)


def positioned(error: ErrorInfo, place: Pos, source_name: str) -> ErrorInfo:
    """Place an error that has no place yet at ``place``."""
    if error.position is not None or not place.line:
        return error
    return msgspec.structs.replace(error, position=f"{source_name or 'playbook'}:{place.line}:{place.column}")


def error_info_at(error: NoetlError, task: Task | None, source_name: str) -> ErrorInfo:
    """Convert the error of a write or a rule, at its own place, else at the task's."""
    info = error_of(error, source_name)
    return info if task is None else positioned(info, task.pos, source_name)


def place_of(node: Node) -> Pos:
    """Return where a value is in the playbook, as far as its templates show."""
    if isinstance(node, (Expr, Text, Sql)):
        return node.pos
    inner = (
        [entry for _, entry in node.entries]
        if isinstance(node, Map)
        else node.items
        if isinstance(node, Seq)
        else ()
    )
    return next((place for place in map(place_of, inner) if place.line), Pos())


def located(error: NoetlError, place: Pos) -> NoetlError:
    """Place an exception of NoETL's own that names no place at ``place``."""
    if place.line and not error.details.get("line"):
        error.details |= {"line": place.line, "column": place.column}
    return error


def _in_code(error: ErrorInfo, task: Task) -> Pos | None:
    """Return the place of a ``line`` (and ``column``) of the task's raw text."""
    line, place = error.details.get("line"), task.code_pos
    if not place.line or not isinstance(line, int):
        return None
    if task.code_lines:
        return Pos(place.line + line - 1, place.column + error.details.get("column", 1) - 1)
    return place


def _in_params(error: ErrorInfo, task: Task) -> Pos | None:
    """Return the place of the template that produced a parameter (``details.field``)."""
    field = error.details.get("field")
    node: Node | None = task.params if isinstance(field, str) else None
    for part in str(field).split("."):
        if isinstance(node, Map):
            node = dict(node.entries).get(part)
        elif isinstance(node, Seq) and part.isdecimal() and int(part) < len(node.items):
            node = node.items[int(part)]
        else:
            break
    return node.pos if isinstance(node, (Expr, Text, Sql)) else None


def _error_info(error: NoetlError, kind: str, source_name: str, *, retryable: bool) -> ErrorInfo:
    details = short_details(error.details)
    line, column = details.pop("line", 0), details.pop("column", 0)
    position = f"{source_name or 'playbook'}:{line}:{column}" if line else None
    return ErrorInfo(error.message, kind, error.code, None, retryable, error.hint, position, details)


def short_details(details: dict[str, Any]) -> dict[str, Any]:
    """Return the plain values among an error's details, with long texts cut."""
    return {name: excerpt(value, TEXT_LIMIT) for name, value in details.items() if isinstance(value, str)} | {
        name: value for name, value in details.items() if isinstance(value, (int, float, bool, type(None)))
    }
