"""Reports of a worker about a command: outcomes, errors, patches, and the trace.

All values are JSON values (dict, list, str, int of any size, finite float, bool, None). A value too
large to travel is replaced by the mapping of a ``ResultRef`` (domain/results/references.py).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from noetl.domain.results.retention import KeptResult

OutcomeStatus = Literal["ok", "error", "skipped", "suspended"]
PatchScope = Literal["ctx", "vars", "step"]
PatchOp = Literal[
    "set", "add", "append", "extend", "merge", "replace", "max", "min", "union", "first", "unset"
]


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failure as playbooks see it (``error.*``, ``outcome.error.*``)."""

    message: str
    kind: str = "unknown"
    code: str | None = None
    status: int | None = None
    retryable: bool = False
    hint: str | None = None
    position: str | None = None
    """``path:line:column`` in the playbook when the playbook caused it."""
    details: dict[str, Any] = {}


class Patch(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of a scope: ``ctx.total += 3`` is ``Patch("ctx", "total", 3, "add")``.

    ``unset`` (from outside only): the name goes.
    """

    scope: PatchScope
    name: str
    value: Any
    op: PatchOp = "set"


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that a ``next`` action goes to, with the token payload it carries."""

    step: str
    args: dict[str, Any] = {}


WORKER_TRACES = frozenset(
    {
        "case.evaluated",
        "retry.processed",
        "retry.scheduled",
        "sink.processed",
        "sink.started",
        "task.cached",
        "task.done",
        "task.started",
    }
)
"""Names of what a worker may say that it did. All other events are the engine's own."""


class Trace(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something a worker did that history shows: stored name, entity and payload."""

    name: str
    entity: str = ""
    status: Literal["in_progress", "success", "error", "skipped"] = "success"
    payload: dict[str, Any] = {}


class ChildRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sub-execution the pipeline waits for (or does not: ``wait=False``)."""

    path: str
    version: int | None = None
    payload: dict[str, Any] = {}
    return_step: str | None = None
    wait: bool = True
    no_cache: bool = False
    """None of its tasks takes the result of an earlier call."""
    passed: int = 0
    """Derivations of its id that the worker passed over when it chose the id (``ids.derivation_to_tell``)."""


class WaitRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a ``wait`` asks for: time to pass, a moment to come, or an answer from outside.

    ``seconds``: to pass. ``until``: the moment, in epoch seconds. ``callback``: a person or another system has to answer, within
    ``timeout`` seconds if that is set. ``schema``: the answer has to fit it; ``approve``: people are shown a page.
    """

    seconds: float | None = None
    until: float | None = None
    callback: bool = False
    timeout: float | None = None
    message: str = ""
    approve: bool = False
    schema: dict[str, Any] | None = None


class PollRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to ask again for work in another system that has begun and is not over.

    The engine runs the task again after ``delay`` seconds, with ``state`` as ``TaskContext.pending``. No worker is held meanwhile.
    ``state``: plain JSON values that identify the work.
    """

    state: dict[str, Any]
    delay: float


class CallbackRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A callback the pipeline waits for.

    It is the ``serial``-th of its run, from 0, asked for by ``task``. The rest: see WaitRequest.
    """

    serial: int
    task: str
    timeout: float | None = None
    message: str = ""
    approve: bool = False
    schema: dict[str, Any] | None = None


class Suspend(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pipeline that cannot continue now: the engine issues it again as the next turn.

    Exactly one reason: ``delay`` seconds or a moment (``until``, epoch seconds) to wait for, ``child`` (a sub-execution), or
    ``callback``. ``task``: the ``wait`` that asked for the delay or the moment; empty: a retry. ``machine`` is the pipeline's own state,
    opaque to the engine; the next turn gets it back.

    ``remote``: the delay is that of work in another system (``PollRequest``), which has to be stopped there when the task is given up.
    ``deadline``: epoch seconds at which it is given up. ``again``: the turn only asked for progress; history does not record it.

    ``spends``: a task is about to begin again, as long as the budget of the execution lasts.
    """

    machine: dict[str, Any]
    delay: float | None = None
    child: ChildRequest | None = None
    until: float | None = None
    task: str = ""
    callback: CallbackRequest | None = None
    remote: bool = False
    deadline: float = 0.0
    again: bool = False
    spends: bool = False


AROUND = "around"
"""Key of ``Outcome.meta``: what came around the result (status code, headers), where templates at the step's end read it."""


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one command (or of one item of a loop chunk).

    ``result`` is the unwrapped result of the last task (or what the ``result`` action made of it).
    ``labels`` holds every task's result of a pipeline of several tasks. ``patches`` are in the order
    they were made. ``route`` is the target list of a ``next`` action that a worker-side case took;
    ``None`` when there was none (an empty list is a decision too: go nowhere).
    """

    status: OutcomeStatus
    result: Any = None
    error: ErrorInfo | None = None
    labels: dict[str, Any] = {}
    patches: list[Patch] = []
    route: list[Target] | None = None
    trace: list[Trace] = []
    suspend: Suspend | None = None
    meta: dict[str, Any] = {}
    """``duration_ms``, ``attempts``, ``worker``, and helpers such as ``http`` / ``pg`` / ``py``."""
    kept: tuple[KeptResult, ...] = ()
    """Large results that live differently from their execution. For the engine's commit: no part of history."""
    reaches: tuple[int, ...] = ()
    """Executions whose results are mentioned in large results of this one. As ``kept``."""
