"""The requests of a pipeline, and the outcomes that answer them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from noetl.domain.outcomes.outcomes import ChildRequest, ErrorInfo, Outcome, WaitRequest
from noetl.pipeline.state import Pending


class CallCache(msgspec.Struct, frozen=True):
    """The cache of one call.

    ``key``: the SHA-256 (hex) of what makes two calls the same. ``ttl``: the seconds for which its result is taken. ``take``: the result
    of an earlier call may answer this one.
    """

    key: str
    ttl: float
    take: bool = True


class RunTask(msgspec.Struct, frozen=True):
    """A request to call a tool.

    ``key``: the task's part of the idempotency key, the same for every attempt of one visit. ``pending``: the state of the external job
    that an earlier call began; this call asks whether it is over.
    """

    label: str
    kind: str
    params: Any
    input: Mapping[str, Any]
    attempt: int
    timeout: float | None
    key: str
    pending: Pending | None = None
    cache: CallCache | None = None


class Finish(msgspec.Struct, frozen=True):
    """The pipeline ended, or is suspended (``outcome.suspend``)."""

    outcome: Outcome


Op = RunTask | Finish


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a RunTask: a result, an error, a sub-execution, a wait, or a pending job.

    ``pending``: an external job that still runs; the task asks for it again after ``delay`` seconds. ``chance`` in [0, 1) feeds a retry's
    jitter.
    """

    result: Any = None
    error: ErrorInfo | None = None
    child: ChildRequest | None = None
    wait: WaitRequest | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    duration_ms: float = 0.0
    chance: float = 0.0
    pending: Pending | None = None
    delay: float = 0.0
    cached: Mapping[str, Any] | None = None
    """The call whose stored result this is: ``execution_id``, ``step``, ``run``, ``at``. None: the task was run."""
