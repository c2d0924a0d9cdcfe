"""What a pipeline asks for, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl.domain.outcomes import ChildRequest, ErrorInfo, Outcome, WaitRequest


@dataclass(frozen=True, slots=True)
class RunTask:
    """Call this tool. ``key`` is the task's part of the idempotency key: the same for every attempt of one visit."""

    label: str
    kind: str
    params: Any
    input: Mapping[str, Any]
    attempt: int
    timeout: float | None
    key: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The pipeline ended, or is suspended (``outcome.suspend``)."""

    outcome: Outcome


Op = RunTask | Finish


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What came of a RunTask: a result, an error, a sub-execution to start, or what to wait for. ``chance`` in [0, 1) feeds a retry's jitter."""

    result: Any = None
    error: ErrorInfo | None = None
    child: ChildRequest | None = None
    wait: WaitRequest | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    duration_ms: float = 0.0
    chance: float = 0.0
