"""The tree of errors that this library raises.

    NoetlError
    ├── PlaybookError         the author's: invalid playbook, template that fails
    │   └── TemplateError     a template could not be evaluated (carries its position)
    ├── TaskError             a tool failed: becomes ``call.error``, never escapes a worker
    ├── InvalidInputError     the caller's: malformed request or payload
    ├── NotFoundError         the caller's: no such playbook, execution, result
    ├── ConflictError         the caller's or a race: already ended, version moved on
    │   └── GoneError         it was there, and is over for good
    └── InfrastructureError   the system's: database unavailable, result store unreachable
        └── OverloadedError   more waits than is good: later

Every error has a stable ``code``, states whether trying again can help (``retryable``), and keeps
``details`` that are safe to print. Boundaries map families, not messages: exit codes, HTTP status,
partial batch failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class NoetlError(Exception):
    """Root of every error this library raises on purpose."""

    default_code: ClassVar[str] = "error"
    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        retryable: bool | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.hint = hint
        self.retryable = self.default_retryable if retryable is None else retryable
        self.details: dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class PlaybookError(NoetlError):
    """The playbook is at fault."""

    default_code = "invalid_playbook"


class TemplateError(PlaybookError):
    """A template could not be evaluated.

    Codes: ``undefined``, ``template_limit``, ``template_syntax``, ``template_error``,
    ``template_type`` (a guard that is neither true nor false, a loop that is not a list).
    ``details`` holds ``template`` (source), ``line`` and ``column`` (1-based, 0 when unknown),
    and ``nearest`` for an undefined name.
    """

    default_code = "template_error"


class TaskError(NoetlError):
    """A tool failed.

    ``kind`` is one of ``ERROR_KINDS`` (``domain/outcomes/step_ends.py``).
    """

    default_code = "task_failed"

    def __init__(
        self,
        message: str,
        *,
        kind: str = "unknown",
        code: str | None = None,
        status: int | None = None,
        hint: str | None = None,
        retryable: bool = False,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint, retryable=retryable, details=details)
        self.kind = kind
        self.status = status


class InvalidInputError(NoetlError):
    """The request cannot be understood or does not fit."""

    default_code = "invalid_input"


class NotFoundError(NoetlError):
    """What was asked for does not exist."""

    default_code = "not_found"


class ConflictError(NoetlError):
    """The request does not fit the present state."""

    default_code = "conflict"


class GoneError(ConflictError):
    """It was there, and is over for good."""

    default_code = "gone"


class InfrastructureError(NoetlError):
    """Something this system depends on failed; trying again may help."""

    default_code = "infrastructure"
    default_retryable = True


class OverloadedError(InfrastructureError):
    """A refusal because too many requests wait already.

    The same request may succeed ``details["retry_after"]`` seconds from now.
    """

    default_code = "overloaded"


def as_exception(error: BaseException) -> Exception:
    """Return ``error`` as an Exception.

    A boundary uses it to keep one message from breaking its neighbours.

    A panic of a compiled library and ``sys.exit()`` in one are no Exceptions, yet they are defects like any other. Raises
    KeyboardInterrupt again: that one is meant for the process.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, KeyboardInterrupt):
        raise error
    return RuntimeError(f"{type(error).__name__}: {error}")
