"""Views of an execution's progress, status and result, for people and clients. Reads only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from noetl.domain import codec
from noetl.domain.errors import ConflictError, NoetlError, NotFoundError, TaskError
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.results.manifests import is_manifest, join
from noetl.domain.results.references import is_ref
from noetl.domain.state import TERMINAL, ExecutionState, rest_until
from noetl.domain.text.timestamps import Timestamp, maybe_timestamp
from noetl.domain.unreadable import Unreadable, attempt
from noetl.dsl.program import Admission, Expr, Program
from noetl.ports.executions.answers import EVERY, ExecutionFilter
from noetl.ports.executions.execution_store import Ending, ExecutionInfo, ExecutionStore
from noetl.ports.results import ResultStore
from noetl.services.callbacks.open_callbacks import AwaitedCallback as AwaitedCallback
from noetl.services.callbacks.open_callbacks import awaited, count_awaited
from noetl.services.history.execution_state import read_state
from noetl.services.history.failed_items import FailedItems, failed_items
from noetl.services.history.phases import Phase
from noetl.services.history.progress import Progress, StepRun, read_progress
from noetl.services.queries.limits import WaitView, waits
from noetl.services.results.ending_value import ending_value
from noetl.services.results.hydration import NOT_VALUES, make_hydrate
from noetl.services.results.stored_bytes import outages

Programs = Callable[[str], Program]
STATUSES = ("scheduled", "queued", "running", "waiting", "paused", "completed", "failed", "cancelled")
MAX_DEPTH = 100


def is_over(store: ExecutionStore, info: ExecutionInfo) -> bool:
    """Return whether an execution has ended, and no accepted event of it waits.

    Such as a redrive, after which it has not ended.
    """
    return info.status in TERMINAL and not store.open_work(info.execution_id).get("outbox")


class LoopView(msgspec.Struct, frozen=True):
    total: int
    done: int
    failed: int
    issued: int
    mode: str


class StepView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step run.

    ``status``: running, waiting, retrying, done, failed, skipped, cancelled. Durations are in milliseconds.
    """

    run: int
    step: str
    status: str
    started_at: Timestamp
    duration_ms: int
    attempts: int = 1
    loop: LoopView | None = None
    child_execution_id: str | None = None
    error: dict[str, Any] | None = None
    until: Timestamp | None = None
    """When it continues, while it waits for a time."""
    failed_items: FailedItems | None = None
    """Items of its loop that failed, and why: of the latest loops, where they were read."""
    cached_from: str | None = None
    """The execution whose stored result it took from the cache."""
    phases: list[Phase] = []
    """In order, where they were asked for."""


class ParkedStep(msgspec.Struct, frozen=True):
    """A step that is not admitted; one that waits for a lock is admitted.

    ``guard``: the rule's text. ``keys``: the context keys that it reads, which a patch would set.
    """

    step: str
    guard: str
    keys: tuple[str, ...]


class ExecutionSummary(msgspec.Struct, frozen=True):
    """One line of a list.

    ``duration_ms`` leaves out the time between an end and a redrive. ``active_seconds`` also leaves out its rests: pauses, and waits for
    people, times, locks and admission (``domain.state.rest_until``).

    ``status`` is ``waiting`` when every token waits for something outside, ``queued`` until it has a slot to begin, and ``scheduled``
    until ``started_at`` when the start was asked for a later time.
    """

    execution_id: str
    path: str
    name: str
    status: str
    started_at: Timestamp
    ended_at: Timestamp | None
    duration_ms: int
    parent_execution_id: str | None
    unreadable: str | None = None
    """Why its state cannot be read; what else is said of it comes from its row."""
    version: int | None = None
    """The version of its playbook that it runs now; None when it was started without the catalog."""
    program: str = ""
    """Hash of the compiled form that it runs now."""
    principal: str = ""
    """Who started it."""
    labels: dict[str, str] = {}
    active_seconds: float = 0.0
    rounds: int = 0
    """How often it was redriven."""


class ExecutionView(msgspec.Struct, frozen=True):
    """An execution with its step runs.

    ``error`` has message, kind, code, hint, position, step and details (``input``: the input of the call). ``outstanding``: counts of
    commands, timers, outbox. ``waits``: waits for keys that executions share. ``awaiting``: callbacks that it waits for;
    ``awaiting_left_out`` counts those of loop items that are not shown. ``unreadable``: rows that cannot be read, with the reasons; the
    rest of the view is made without them. ``revision`` grows with each change: the view is of that revision or a later one.
    """

    summary: ExecutionSummary
    steps: list[StepView]
    error: dict[str, Any] | None
    reason: str
    parked: list[ParkedStep]
    outstanding: dict[str, int]
    waits: list[WaitView] = []
    awaiting: list[AwaitedCallback] = []
    awaiting_left_out: int = 0
    unreadable: list[str] = []
    revision: int = 0

    @property
    def status(self) -> str:
        return self.summary.status

    def to_dict(self) -> dict[str, Any]:
        """Return the view as one JSON mapping."""
        shown: dict[str, Any] = codec.plain(self)
        return {**shown.pop("summary"), **shown}


def find(store: ExecutionStore, execution_id: int) -> ExecutionInfo:
    """Return an execution's row. Raises NotFoundError."""
    return store.info(execution_id) or no_execution(execution_id)


def no_execution(execution_id: int) -> NoReturn:
    """Raises NotFoundError."""
    raise NotFoundError(
        f"there is no execution {execution_id}",
        code="execution_not_found",
        hint="`noetl list` shows what there is",
    )


def describe(
    store: ExecutionStore,
    programs: Programs,
    execution_id: int,
    *,
    now: float,
    progress: Progress | None = None,
) -> ExecutionView:
    """Read an execution with its steps.

    ``progress``: the fold of an earlier call, which this one continues. Raises NotFoundError.
    """
    info = find(store, execution_id)
    progress = read_progress(store, execution_id, progress)
    state, unreadable = read_state(info)
    waiting = waits(store, execution_id) if info.status not in TERMINAL else []
    awaiting = attempt(lambda: awaited(store, execution_id, state), f"a callback of execution {execution_id}")
    unread = [one for one in (unreadable, awaiting) if isinstance(one, Unreadable)]
    shown = [] if isinstance(awaiting, Unreadable) else awaiting
    failed = failed_items(store, execution_id, list(progress.runs.values()))
    return ExecutionView(
        summary=summarize(info, now, queued=any(not wait.step for wait in waiting)),
        steps=[step_view(run, now, failed.get(run.run)) for run in progress.runs.values()],
        error=_error(state, progress),
        reason=progress.reason,
        parked=parked_steps(state, programs),
        outstanding=dict(store.open_work(execution_id)),
        waits=waiting,
        awaiting=shown,
        awaiting_left_out=max(0, count_awaited(state) - len(shown)) if shown else 0,
        unreadable=[str(one) for one in (*unread, *progress.unreadable)],
        revision=info.version,
    )


def list_executions(
    store: ExecutionStore,
    *,
    limit: int,
    now: float,
    before: int | None = None,
    status: str | None = None,
    wanted: ExecutionFilter = EVERY,
) -> list[ExecutionSummary]:
    """Newest first. ``status``: one of ``STATUSES``."""
    stored = "running" if status in ("waiting", "scheduled", "queued") else status
    found: list[ExecutionSummary] = []
    for page in _pages(store, limit, before, stored, wanted):
        queued = _queued(store, page)
        for info in page:
            summary = summarize(info, now, queued=info.execution_id in queued)
            if status is None or summary.status == status:
                found.append(summary)
            if len(found) == limit:
                return found
    return found


def _pages(
    store: ExecutionStore, limit: int, before: int | None, status: str | None, wanted: ExecutionFilter
) -> Iterator[Sequence[ExecutionInfo]]:
    while True:
        page = store.executions(limit=limit, before=before, status=status, wanted=wanted)
        yield page
        if len(page) < limit:
            return
        before = page[-1].execution_id


def latest(store: ExecutionStore) -> int:
    """Return the latest execution that no other execution started.

    Raises NotFoundError when there is none.
    """
    for info in store.executions(limit=1, wanted=ExecutionFilter(roots=True)):
        return info.execution_id
    raise NotFoundError(
        "nothing has been executed yet", code="execution_not_found", hint="start with `noetl run FILE`"
    )


def result(store: ExecutionStore, results: ResultStore, execution_id: int) -> Any:
    """Return the result of a completed execution, with large parts read from their stores.

    One step that ended without a successor (or the final step): its value; several: a mapping by step name.
    Raises NotFoundError, ConflictError (codes ``not_completed``, ``execution_failed``) when there is no result, and
    TaskError(code="REFERENCE_NOT_AVAILABLE") when a part of it is gone or damaged.
    """
    return resolve(unresolved_result(store, execution_id), results)


def unresolved_result(store: ExecutionStore, execution_id: int) -> Any:
    """Return an execution's result, with references for large values.

    Raises NotFoundError and ConflictError.
    """
    return result_of(find_ending(store, execution_id))


def find_ending(store: ExecutionStore, execution_id: int) -> Ending:
    """Return how an execution ended. Raises NotFoundError."""
    return store.endings([execution_id]).get(execution_id) or no_execution(execution_id)


def result_of(ending: Ending) -> Any:
    """Return the result of an ended execution, with references for large values.

    Raises ConflictError when it did not complete.
    """
    if ending.info.status != "completed":
        raise _no_result(ending.info)
    return ending_value(ending)


def _no_result(info: ExecutionInfo) -> ConflictError:
    status = view_status(info)
    if info.status in TERMINAL:
        error = read_state(info)[0].error
        return ConflictError(
            f"execution {info.execution_id} {info.status}, so it has no result",
            code="execution_failed",
            hint=error.message if error else f"`noetl status {info.execution_id}` shows why",
        )
    return ConflictError(
        f"execution {info.execution_id} is {status}; its result is known when it has completed",
        code="not_completed",
        hint=f"`noetl status {info.execution_id}` shows how far it is",
    )


def resolve(value: Any, results: ResultStore) -> Any:
    """Replace every result reference in ``value`` by the value it refers to.

    References of files, which are no values, stay. Raises TaskError(code="REFERENCE_NOT_AVAILABLE"), and InfrastructureError when the store
    is unreachable.
    """
    return resolve_with(value, make_hydrate(results, cache_bytes=0))


def resolve_with(value: Any, hydrate: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Resolve references as ``resolve`` does, reading by ``hydrate``."""
    with outages():
        return _resolved(value, hydrate, 0)


def _resolved(value: Any, hydrate: Callable[[Mapping[str, Any]], Any], depth: int) -> Any:
    if depth > MAX_DEPTH:
        return value
    if is_ref(value):
        try:
            found = hydrate(value)
        except TaskError as error:
            if error.code in NOT_VALUES:
                return value
            raise
        return _resolved(found, hydrate, depth + 1)
    if is_manifest(value):
        return _resolved(join(value, hydrate), hydrate, depth + 1)
    if isinstance(value, Mapping):
        return {key: _resolved(item, hydrate, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item, hydrate, depth + 1) for item in value]
    return value


# --- parts of a view ----------------------------------------------------------------------------


def view_status(info: ExecutionInfo) -> str:
    """Return the stored status, or ``waiting`` when no token can move by itself.

    Every token is then parked, waits for a callback, or waits at a join for one that does.
    """
    if info.status != "running":
        return info.status
    return "waiting" if rest_until(read_state(info)[0]) == math.inf else "running"


def is_queued(store: ExecutionStore, info: ExecutionInfo) -> bool:
    """Check whether the execution waits for a slot to begin."""
    return bool(_queued(store, [info]))


def _queued(store: ExecutionStore, infos: Sequence[ExecutionInfo]) -> frozenset[int]:
    """Return those that wait for a slot to begin, in one statement; none when all have begun."""
    unbegun = [
        one.execution_id for one in infos if not one.version and one.status == "running" and not one.ahead
    ]
    return store.queued_starts(unbegun) if unbegun else frozenset()


STEPS_NAMED = 200


def completed_steps(store: ExecutionStore, programs: Programs, info: ExecutionInfo) -> list[str]:
    """Return the steps that have a result, in the playbook's order.

    Returns none when the playbook cannot be read.
    """
    if not info.version:
        return []
    try:
        names = [step.name for step in programs(info.program).steps[:STEPS_NAMED]]
    except NoetlError:
        return []
    left = store.left_steps(info.execution_id, names)
    return [name for name in names if name in left]


def current_step(info: ExecutionInfo) -> str | None:
    """Return a step that is under way, from the execution's row alone."""
    tokens = read_state(info)[0].tokens.values() if info.status not in TERMINAL else ()
    return max(tokens, key=lambda token: token.run).step if tokens else None


def statuses(store: ExecutionStore, infos: Sequence[ExecutionInfo], now: float) -> dict[int, str]:
    """Return statuses by execution, as lists show them."""
    queued = _queued(store, infos)
    return {
        info.execution_id: summarize(info, now, queued=info.execution_id in queued).status for info in infos
    }


def _status(info: ExecutionInfo, queued: bool) -> str:
    if info.status == "running" and info.ahead:
        return "scheduled"
    return "queued" if queued else view_status(info)


def summarize(info: ExecutionInfo, now: float, *, queued: bool = False) -> ExecutionSummary:
    """Summarize an execution from its row alone.

    ``queued``: it waits for a slot to begin.
    """
    parent = info.parent_execution_id
    state, unreadable = read_state(info)
    duration_ms = max(0, _milliseconds(info.started_at, info.ended_at, now) - round(state.idle * 1000))
    return ExecutionSummary(
        execution_id=str(info.execution_id),
        path=info.path,
        name=info.name,
        status=_status(info, queued),
        started_at=Timestamp(info.started_at),
        ended_at=maybe_timestamp(info.ended_at),
        duration_ms=duration_ms,
        parent_execution_id=None if parent is None else str(parent),
        unreadable=None if unreadable is None else unreadable.why,
        version=int(info.playbook_version) if info.playbook_version.isdigit() else None,
        program=info.program,
        principal=info.principal,
        labels=dict(info.labels),
        active_seconds=round(max(0.0, duration_ms / 1000 - info.rested), 3),
        rounds=state.rounds,
    )


def step_view(
    run: StepRun, now: float, failed: FailedItems | None = None, phases: Sequence[Phase] = ()
) -> StepView:
    """Return a step run for people. ``failed``: items of its loop."""
    loop = run.loop
    # While it runs, the one that it waits for.
    child = run.child if run.ended is None else run.begun
    return StepView(
        run=run.run,
        step=run.step,
        status=run.status,
        started_at=Timestamp(run.started),
        duration_ms=_milliseconds(run.started, run.ended, now),
        attempts=run.attempts,
        loop=LoopView(loop.total, loop.done, loop.failed, loop.issued, loop.mode) if loop else None,
        child_execution_id=str(child) if child else None,
        error=run.error,
        until=maybe_timestamp(run.until),
        failed_items=failed,
        cached_from=run.cached_from or None,
        phases=list(phases),
    )


def _milliseconds(started: float, ended: float | None, now: float) -> int:
    return max(0, round(((now if ended is None else ended) - started) * 1000))


def error_of(info: ExecutionInfo) -> dict[str, Any] | None:
    """Why an execution failed, from its row alone."""
    error = read_state(info)[0].error
    return None if error is None else msgspec.to_builtins(error)


def _error(state: ExecutionState, progress: Progress) -> dict[str, Any] | None:
    if progress.error is None and state.error is None:
        return None
    error: ErrorInfo | None = state.error
    shown = dict(progress.error) if progress.error is not None else msgspec.to_builtins(error)
    return {**shown, "step": progress.error_step or None}


def parked_steps(state: ExecutionState, programs: Programs) -> list[ParkedStep]:
    """Return the steps that are not admitted, and what would admit them."""
    steps = [token.step for token in state.tokens.values() if token.phase == "parked" and not token.lock]
    if not steps:
        return []
    try:
        program = programs(state.program)
    except NoetlError:
        return [ParkedStep(step, "", ()) for step in steps]
    return [_parked_step(step, program.step(step).admit) for step in steps]


def _parked_step(step: str, admit: Admission | None) -> ParkedStep:
    """Return the condition that would admit the step: the first rule that admits on one."""
    for rule in admit.rules if admit else ():
        if rule.allow == "yes" and isinstance(rule.when, Expr):
            keys = tuple(name.removeprefix("ctx.") for name in rule.when.reads if name.startswith("ctx."))
            return ParkedStep(step, rule.when.source.strip(), tuple(key for key in keys if key != "*"))
    return ParkedStep(step, "", ())
