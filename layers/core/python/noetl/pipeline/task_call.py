"""One call of a tool.

The run renders its input, parameters and timeout, and binds the outcome to the names that rules read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from noetl.domain import codec
from noetl.domain.durations import HINT, seconds_of
from noetl.domain.errors import InvalidInputError, NoetlError, TemplateError
from noetl.domain.kinds import CONTROL_KINDS
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.patches.scope_patches import MISSING, deep_merge
from noetl.domain.results.references import is_ref
from noetl.dsl.program import CacheSpec, Node, Task
from noetl.pipeline import call_result, dynamic_task, nested, result_binding, tracing
from noetl.pipeline.errors import error_of, located, place_of
from noetl.pipeline.requests import CallCache, Finish, Op, RunTask, TaskOutcome
from noetl.pipeline.retry import allowed_attempts, exhausted, schedule_retry, wants_retry
from noetl.pipeline.sql_overrides import unpack_sql
from noetl.pipeline.state import EACH, Frame, LatestOutcome, latest
from noetl.pipeline.template_views import split_result
from noetl.templating import unwrap
from noetl.templating.contract import RenderedSql

if TYPE_CHECKING:
    from noetl.pipeline.run import Run

MOVES_PER_TURN = 1000
"""Calls after which a turn hands itself back, so that an endless loop of jumps holds no worker and can be cancelled."""
TRACE_PER_TURN = 600
"""Facts after which a turn hands itself back: all of them leave in one message."""

LONGEST_CACHE = 30 * 86_400.0
"""Seconds that a result is taken again, at most: entries of a deployment are removed a day later."""


def foreign_machine() -> InvalidInputError:
    return InvalidInputError(
        "the suspended pipeline does not fit this playbook's tasks",
        code="machine_state",
        hint="the program hash of the command and of its first turn differ",
    )


def enter(run: Run) -> Op | None:
    """Visit the next task, with its attempts at zero; after the last task, end the sequence."""
    frame = run.state.frames[-1]
    dynamic_task.leave(run, frame)
    if frame.pc >= len(run.sequences[-1]):
        end_sequence(run)
        return None
    visits = run.state.visits
    label = run.sequences[-1][frame.pc].label
    visits[label] = visits.get(label, 0) + 1
    frame.attempt, frame.overrides, frame.phase = 0, None, "call"
    return None


def end_sequence(run: Run) -> None:
    """Leave the top frame, whose tasks are done, and continue below it or with ``vars``."""
    frame, tasks = run.state.frames[-1], run.sequences[-1]
    if frame.address and str(frame.address[0]).endswith("sink"):
        tracing.sink_processed(run, tasks[0], "success")
    run.pop()
    if frame.address == EACH:
        nested.over(run)
    elif not run.state.frames and run.state.stage == "tasks":
        run.state.stage = "vars"


def call(run: Run) -> Op | None:
    """Render the call. A template that fails is the task's error, which its rules may answer."""
    state = run.state
    if state.moves >= MOVES_PER_TURN or len(state.trace) >= TRACE_PER_TURN:
        return run.suspend(0.0)
    frame = state.frames[-1]
    task = run.sequences[-1][frame.pc]
    if state.moves and _spends(run, frame, task):
        return run.suspend(0.0, spends=True)
    state.moves += 1
    frame.attempt += 1
    try:
        task = dynamic_task.choose(run, frame, task)
    except NoetlError as error:
        call_result.bind(run, TaskOutcome(error=error_of(error, run.around.source_name)))
        return None
    if task.nested is not None:
        nested.begin(run, frame, task)
        return None
    return render_call(run, frame, task)


def _spends(run: Run, frame: Frame, task: Task) -> bool:
    """Return whether a task begins again, which the budget has to allow first.

    Items of a loop are counted when the loop is over.
    """
    if not run.around.bounded or run.item is not None or task.kind in CONTROL_KINDS:
        return False
    return frame.attempt == 0 and run.state.visits.get(task.label, 0) > 1


def render_call(run: Run, frame: Frame, task: Task) -> RunTask | None:
    """Render the call that a frame's task makes now.

    None when one of its templates failed; the failure is then bound as the outcome.
    """
    frame.input = None
    try:
        if task.input is not None:
            frame.input = call_result.rendered_input(run, task, task.input)
        params = run.render(task.params)
        if frame.overrides is not None:
            params = deep_merge(params, unpack_sql(frame.overrides))
        timeout = None if task.timeout is None else _timeout(run, task.timeout)
        cache = None if task.cache is None else _cache(run, frame, task, task.cache, params)
    except NoetlError as error:
        call_result.bind(run, TaskOutcome(error=error_of(error, run.around.source_name)))
        return None
    frame.phase = "wait"
    given, key = frame.input or {}, nested.key(run, task)
    if cache is not None:
        run.cache_plans[len(run.state.frames)] = cache
    return RunTask(task.label, task.kind, params, given, frame.attempt, timeout, key, frame.pending, cache)


def _cache(run: Run, frame: Frame, task: Task, spec: CacheSpec, params: Any) -> CallCache | None:
    """Return the cache of this call; None when its key says that it has none.

    A retry, a further page, a question for an external job and a task that is entered again take no earlier result: they ask because the
    last answer was not good, not whole, or not there yet.
    """
    try:
        ttl = seconds_of(run.render(spec.ttl))
        if ttl is None or not 1 <= ttl <= LONGEST_CACHE:
            raise InvalidInputError(
                "a cached result is taken again for at least 1s and at most 30d", code="cache_ttl", hint=HINT
            )
    except InvalidInputError as error:
        raise located(error, spec.pos) from None
    if spec.key is None:
        read = {name: value for name in spec.names if (value := _named(run, name)) is not MISSING}
        parts: Any = [task.kind, frame.input or {}, params, read]
        if run.around.modules and task.kind == "python":
            parts.append(run.around.modules)
        # Parameters hold the name of a keychain's entry; which credential that is depends on the workload.
        if behind := run.around.credentials():
            parts.append(behind)
        # A playbook of the same path in another folder reads other files by the same relative paths.
        if run.around.folder:
            parts.append(["folder", run.around.folder])
    else:
        parts = run.render(spec.key)
        if parts is None or parts == "":
            return None
    around, state = run.around, run.state
    place = [[*one.address, one.pc] for one in state.frames]
    own = [around.frozen.job.get("path"), around.step, around.stage, place, task.label, spec.key is None]
    text = codec.encode([*own, _content(parts)])
    again = frame.attempt > 1 or frame.pending is not None or frame.overrides is not None
    fresh = again or state.visits.get(task.label, 0) > 1 or bool(around.frozen.job.get("no_cache"))
    return CallCache(hashlib.sha256(text).hexdigest(), ttl, take=not fresh)


def _named(run: Run, name: str) -> Any:
    """Return a value that the code of a task reads by its name.

    MISSING where there is none: a parameter then has its default, which null replaces.
    """
    try:
        return unwrap(run.lookup(name))
    except KeyError:
        return MISSING


def _content(value: Any) -> Any:
    """Return ``value`` as its key is made of it.

    A large result counts by its bytes, whichever execution made it.
    """
    if is_ref(value):
        return {"sha256": value.get("sha256"), "ref": None if value.get("sha256") else value.get("ref")}
    if isinstance(value, Mapping):
        return {str(key): _content(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        return [_content(entry) for entry in value]
    if isinstance(value, RenderedSql):
        return [[one.text, _content(dict(one.params))] for one in value.statements]
    return value


def ask_again(run: Run, frame: Frame) -> RunTask | None:
    """Call a task again to ask for its external job; this counts as no visit and no attempt."""
    return render_call(run, frame, run.sequences[-1][frame.pc])


def begin_plain(run: Run) -> RunTask | None:
    """Make the first call of a pipeline that is one task and nothing else."""
    state, task = run.state, run.pipeline.tasks[0]
    frame = Frame(phase="call", attempt=1)
    state.stage, state.frames, state.visits, state.moves = "tasks", [frame], {task.label: 1}, 1
    run.sequences.append(run.pipeline.tasks)
    return render_call(run, frame, task)


def finish_plain(run: Run, outcome: TaskOutcome) -> Finish:
    """Finish the success of a single task."""
    task = run.pipeline.tasks[0]
    result, envelope = split_result(task, outcome.result)
    meta = tracing.with_around(run.pipeline, envelope, call_result.with_source(outcome))
    if run.item is not None and outcome.cached is None:
        meta[tracing.DURATION] = round(outcome.duration_ms, 3)
    plan = run.cache_plans.pop(1, None)
    if outcome.cached is not None:
        return Finish(
            Outcome("ok", result, meta=meta, trace=[tracing.taken_from_cache(task.label, outcome.cached)])
        )
    if plan is not None:
        run.to_cache.append((plan, outcome))
    return Finish(Outcome("ok", result, meta=meta))


def _timeout(run: Run, node: Node) -> float | None:
    """Return a timeout in seconds; ``{connect, read}`` is their sum."""
    try:
        return _seconds(run.render(node))
    except InvalidInputError as error:
        raise located(error, place_of(node)) from None


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    parts = [part for part in value.values() if part is not None] if isinstance(value, Mapping) else [value]
    total = 0.0
    for part in parts:
        seconds = seconds_of(part)
        if seconds is None or not 0 <= seconds <= 366 * 86_400:
            raise InvalidInputError(
                f"a timeout must be a duration, not {str(part)[:60]!r}",
                code="task_timeout",
                hint=HINT,
            )
        total += seconds
    if total <= 0:
        hint = "give the seconds the call may take, or leave it out for the kind's own"
        raise InvalidInputError("a timeout must be more than 0 seconds", code="task_timeout", hint=hint)
    return total


# --- after the call ---------------------------------------------------------------------------------


def judge(run: Run) -> Op | None:
    """Apply the step-level retry; then keep a success.

    A success is kept under its label, written by ``set``, and sent to the task's own sinks.
    """
    frame = run.state.frames[-1]
    task = run.sequences[-1][frame.pc]
    last = latest(frame)
    if task.retry is not None and _again(run, frame, task, last):
        return None
    last = latest(frame)
    frame.phase, frame.answer, frame.error, frame.used = "rules", "", None, []
    frame.event, frame.rule = ("call.done" if last.ok else "call.error"), 0
    if not last.ok:
        return None
    result_binding.remember(run, frame, task, last.result)
    for write in task.sets:
        result_binding.set_value(run, write)
    if task.rules and run.pipeline.vars and not frame.address:
        _preview_block(run)
    if task.sinks:
        frame.sinks = [["task-sink", place] for place in range(len(task.sinks))]
        frame.then, frame.phase = "rules", "sinks"
    return None


def _preview_block(run: Run) -> None:
    """Evaluate ``vars`` so that rules can read them.

    An entry that fails now may succeed at the end (on the last page, for example); only a failure at the end is an error.
    """
    try:
        run.evaluate_block()
    except TemplateError:
        run.block, run.state.block = {}, []


def _again(run: Run, frame: Frame, task: Task, last: LatestOutcome) -> bool:
    """Return whether the step-level ``retry`` takes the outcome."""
    retry = task.retry
    if retry is None:
        return False
    allowed = allowed_attempts(run, retry.action)
    run.retrying, run.max_attempts = True, allowed
    try:
        if not wants_retry(run, retry, last, task.meaning):
            return False
        if frame.attempt < allowed:
            schedule_retry(run, frame, retry.action, allowed)
            frame.phase = "leave"
            return True
    finally:
        run.retrying = False
    if retry.stop_when is not None or not last.ok:
        frame.last = LatestOutcome(error=exhausted(retry, frame.attempt, last), meta=last.meta)
    return False
