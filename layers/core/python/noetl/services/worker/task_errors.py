"""Errors of a task whose cause is the worker, not the task."""

from __future__ import annotations

from noetl.domain.errors import TaskError
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.pipeline import RunTask

FUNCTION_SECONDS = 900.0
"""The longest that a function may run."""


class NotWantedError(TaskError):
    """The work of a pipeline is no longer wanted.

    It ends where it is: no rule of it sees this error, and it makes no further call.
    """

    def __init__(self, label: str, what: str) -> None:
        super().__init__(f"{label} is not wanted any more, and was {what}", kind="cancelled", code="revoked")


def internal(error: Exception) -> ErrorInfo:
    """Build the error of a defect in NoETL or a kind: no traceback reaches the playbook."""
    return ErrorInfo(
        f"{type(error).__name__}: {error}"[:500],
        "unknown",
        "internal",
        hint="this is a defect, not the playbook's fault: the worker's log has the details",
    )


def too_long(op: RunTask, timeout: float, longest: float) -> ErrorInfo:
    if longest > FUNCTION_SECONDS:
        remedy = (
            "divide the work; `container` and `snowflake` wait for long work and hold no worker meanwhile"
        )
    else:
        remedy = "say `spec: { long: true }`, for a worker on Fargate, where a call may take almost 12 hours"
    return ErrorInfo(
        f"{op.label} may take {timeout:g} s, and no call can have more than {longest:g} s in this worker",
        "schema",
        "timeout_too_long",
        hint=f"set `spec.timeout` to at most {longest:g}, or {remedy}",
    )


SECRET_IN_PAYLOAD = ErrorInfo(
    "a secret cannot be passed to a sub-playbook",
    "schema",
    "secret_in_payload",
    hint="name the credential in the sub-playbook's own keychain",
)


def unstorable(label: str, problem: str) -> ErrorInfo:
    return ErrorInfo(
        f"the result of {label} cannot be kept: {problem}",
        "schema",
        "unstorable_result",
        hint="return JSON values: mappings with text keys, lists, texts, finite numbers, true, false, null",
    )
