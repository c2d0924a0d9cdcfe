"""The trace of a run: compact facts for history.

A single task that ran once leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.domain import codec
from noetl.domain.kinds import CONTROL_KINDS
from noetl.domain.outcomes.outcomes import AROUND, ErrorInfo, Trace
from noetl.dsl.program import (
    Action,
    BreakAction,
    CollectAction,
    ContinueAction,
    FailAction,
    NextAction,
    Pipeline,
    RetryAction,
    SetAction,
    SinkAction,
    Task,
)
from noetl.pipeline.requests import TaskOutcome
from noetl.pipeline.state import Frame, State

if TYPE_CHECKING:
    from noetl.pipeline.run import Run

_EVIDENT = (ContinueAction, SetAction, CollectAction, NextAction, RetryAction, SinkAction)
"""Actions that need no ``case.evaluated``: ``ctx.patched``, ``next.evaluated``, ``retry.scheduled``, ``sink.started`` tell of them."""


def called(run: Run, frame: Frame, task: Task, outcome: TaskOutcome) -> None:
    """Trace that a call returned.

    The trace of the first call of a single task is held until another call follows.
    """
    if run.inside_sink():
        return
    state = run.state
    state.calls += 1
    state.free += task.kind in CONTROL_KINDS
    status: Any = "success" if outcome.error is None else "error"
    about: dict[str, Any] = {"kind": task.kind, "attempt": frame.attempt, **place(state)}
    made = [
        Trace("task.started", task.label, "in_progress", about),
        Trace("task.done", task.label, status, {**about, DURATION: round(outcome.duration_ms, 3)}),
    ]
    if outcome.error is not None:
        made[1].payload["error"] = outcome.error.message[:200]
    if outcome.cached is not None:
        state.cached += 1
        made = [taken_from_cache(task.label, outcome.cached)]
    elif state.calls == 1 and len(run.pipeline.tasks) == 1 and not state.levels:
        state.held = made
        return
    release(state)
    state.trace += made
    tried_again(state, frame, task, status)


def taken_from_cache(label: str, source: Mapping[str, Any]) -> Trace:
    """Trace that the stored result of an earlier call answers a task."""
    return Trace("task.cached", label, "success", dict(source))


def tried_again(state: State, frame: Frame, task: Task, status: Any) -> None:
    """Trace a call that was a retry: it was not the first of its visit."""
    if frame.attempt > 1:
        state.trace.append(Trace("retry.processed", task.label, status, {"attempt": frame.attempt}))


def place(state: State) -> dict[str, Any]:
    """Return ``iteration``: the indexes of nested loops, outermost first; none outside a loop."""
    return {"iteration": [level.index for level in state.levels]} if state.levels else {}


def release(state: State) -> None:
    """There is more than one call to tell of: the first belongs to the story."""
    if state.held:
        state.trace += state.held
        state.held = []


def retry_plan(frame: Frame, action: RetryAction, allowed: int, delay: float) -> dict[str, Any]:
    """Return the payload of the event that reports a retry."""
    return {
        "attempt": frame.attempt + 1,
        "max_attempts": allowed,
        "delay": delay,
        "backoff": action.backoff,
    }


def retry_scheduled(run: Run, frame: Frame, task: Task) -> None:
    """Trace a retry once its rule has run its tasks and sinks.

    Nothing comes between this event and the next attempt.
    """
    release(run.state)
    run.state.trace.append(Trace("retry.scheduled", task.label, "in_progress", frame.again))
    frame.again = {}


def rule_taken(run: Run, frame: Frame, task: Task) -> None:
    """Trace that a rule matched, when it did something that has no event of its own.

    A rule that only continues, writes, routes, retries or sends to a sink costs no row, however many iterations take it.
    """
    actions = task.rules[frame.rule].actions
    if all(isinstance(action, _EVIDENT) or _changes_nothing(run, frame, action) for action in actions):
        return
    release(run.state)
    tags = [action.__struct_config__.tag for action in actions]
    payload = {"event": frame.event, "rule": frame.rule, "actions": tags}
    run.state.trace.append(Trace("case.evaluated", task.label, payload=payload))


def _changes_nothing(run: Run, frame: Frame, action: Action) -> bool:
    """Return whether the run would do the same without the action.

    It would for a break after the last task, and for a failure that stays a failure.
    """
    if isinstance(action, BreakAction):
        return frame.pc + 1 == len(run.sequences[-1])
    failed = frame.last is not None and not frame.last.ok
    return isinstance(action, FailAction) and action.message is None and failed


def sink_started(run: Run, task: Task) -> None:
    release(run.state)
    run.state.trace.append(Trace("sink.started", task.label, "in_progress", {"kind": task.kind}))


def sink_processed(run: Run, task: Task, status: Any) -> None:
    run.state.trace.append(Trace("sink.processed", task.label, status, {"kind": task.kind}))


def sink_failed(run: Run, error: ErrorInfo) -> ErrorInfo:
    """Return the error of the step whose sink failed."""
    task = next(
        tasks[0]
        for frame, tasks in zip(run.state.frames, run.sequences, strict=True)
        if frame.address and str(frame.address[0]).endswith("sink")
    )
    sink_processed(run, task, "error")
    return msgspec.structs.replace(
        error, message=f"sink {task.label}: {error.message}", details={**error.details, "sink": task.label}
    )


def after_failed(first: ErrorInfo | None, error: ErrorInfo) -> ErrorInfo:
    """Return the run's error: the first one, with that of ``vars.after`` in its details."""
    if first is None:
        return error
    return msgspec.structs.replace(first, details={**first.details, "vars_error": error.message})


def take(state: State) -> list[Trace]:
    """Return the facts since the last turn."""
    trace, state.trace = state.trace, []
    return trace


DURATION = "duration_ms"
"""The milliseconds of an outcome: of the whole turn; of an item of a loop, of its only call (further calls have a trace)."""

MOST_AROUND = 8192
"""Bytes of JSON: what came around a result and is larger goes into history without its headers."""


def with_around(
    pipeline: Pipeline, envelope: Mapping[str, Any] | None, meta: Mapping[str, Any]
) -> dict[str, Any]:
    """Report what came around a result where templates at the step's end read it."""
    if not pipeline.tells_around:
        return dict(meta)
    around = dict(envelope or {})
    if len(codec.encode(around)) > MOST_AROUND:
        around = {key: value for key, value in around.items() if isinstance(value, (int, float))}
    return {**meta, AROUND: around}


def calls_made(state: State) -> int:
    """Return how many calls of tools were made so far."""
    return state.calls - state.cached - state.free


def meta(pipeline: Pipeline, state: State, *, bounded: bool, item: bool) -> dict[str, Any]:
    """Return ``meta``.

    ``attempts`` when several tasks ran, tries included: those of them that call a tool. ``calls`` that were made when the cache answered
    others or a budget counts them. And the last task's helpers.

    The helpers are ``http``, ``pg`` and ``py``. ``bounded``: a budget counts. ``item``: of a loop; its only call
    has a duration here.
    """
    last = state.last
    found = with_around(pipeline, last.envelope, last.meta) if last is not None else {}
    if state.pinned:
        found["result_action"] = True
    if item and state.held:
        found[DURATION] = state.held[1].payload[DURATION]
    if state.calls > 1:
        found["attempts"] = state.calls - state.free
    if bounded and (state.calls > 1 or state.free):
        found["calls"] = calls_made(state)
    elif state.cached:
        found["calls"] = state.calls - state.cached
    return {**found, **children(state)}


def children(state: State) -> dict[str, Any]:
    """Return ``children``: the sub-executions that this turn started without waiting."""
    children, state.children = state.children, []
    return {"children": children} if children else {}


def loop_ended(run: Run, frame: Frame, task: Task, outcome: TaskOutcome) -> None:
    """History: the loop is over, or failed."""
    fact = loop_fact(run, frame, task, "task.done", "success" if outcome.error is None else "error")
    if outcome.error is not None:
        fact.payload["error"] = outcome.error.message[:200]
    else:
        fact.payload.update({name: outcome.result[name] for name in ("count", "failed")})
    run.state.trace.append(fact)
    tried_again(run.state, frame, task, fact.status)


def loop_fact(run: Run, frame: Frame, task: Task, name: str, status: Any) -> Trace:
    about = {"kind": task.kind, "attempt": frame.attempt, **place(run.state)}
    return Trace(name, task.label, status, about)
