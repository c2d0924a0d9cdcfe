"""Firing of a schedule: at most one execution per schedule and fire time.

That holds regardless of the process that fires it. The execution sees which firing started it: ``workload.schedule`` is ``{name, at}``,
unless the schedule's payload has a ``schedule``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from noetl.domain.automations.missed_run_policy import due_moments, too_late
from noetl.domain.automations.schedules import Timing, check_timing, fire_key, instant, next_fire
from noetl.domain.errors import ConflictError, InfrastructureError, NoetlError, NotFoundError, as_exception
from noetl.domain.events import Event, Start
from noetl.domain.state import TERMINAL
from noetl.ports.automations.schedule_store import (
    NONE_SKIPPED,
    ScheduleRow,
    ScheduleStore,
    SkipCause,
    Skipped,
)
from noetl.services.executions.change_execution import ChangeRequest, cancel
from noetl.services.executions.start_execution import Started
from noetl.services.executions.start_playbook import StartDeps, start_playbook
from noetl.services.support.handing_on import handing_on


class Fired(msgspec.Struct, frozen=True):
    """Result of a firing.

    ``event`` has to be published, when there is one, and ``cancelled``: the cancellation of the execution before. ``execution_id`` None:
    nothing was started, and ``reason`` says why.
    """

    name: str
    at: float
    execution_id: int | None = None
    event: Start | None = None
    reason: str = ""
    cancelled: Event | None = None


def timing_of(row: ScheduleRow) -> Timing:
    return Timing(row.cron, row.rate, row.timezone, row.anchor)


def fire_schedule(name: str, at: float, schedules: ScheduleStore, deps: StartDeps) -> Fired:
    """Fire schedule ``name`` for EventBridge Scheduler, which reports it as due since ``at``.

    The table decides what that means: a schedule that is gone or paused starts nothing, although the scheduler still reports it.

    Raises InfrastructureError (deliver again).
    """
    row = schedules.get(name)
    if row is None:
        return Fired(name, at, reason="there is no such schedule")
    if not row.active:
        reason = "it is paused" if row.paused else row.unreadable or "it is disabled"
        return Fired(name, at, reason=reason)
    reason = too_late(row.conduct, timing_of(row), at, row.last_at, deps.clock())
    if reason:
        return _leave_out(row, at, reason, schedules, deps)
    return _fire(row, at, next_fire(timing_of(row), max(at, deps.clock())), schedules, deps)[0]


def fire_due(schedules: ScheduleStore, deps: StartDeps, limit: int = 100) -> Iterator[Fired]:
    """Fire the schedules that are due by the table's own times.

    ``catch_up`` decides about missed runs. Several processes may do so at once. A schedule whose row cannot be used is stopped, and its
    row says why. A retryable error of one schedule, and one that is no NoetlError, is raised after the others were looked at; that
    schedule stays due. Raises InfrastructureError at once (what is left is still due).
    """
    now = deps.clock()
    failed: Exception | None = None
    for row in schedules.due(now, limit):
        if row.next_at is None:
            continue
        if row.unreadable:
            yield _stop(row, row.next_at, row.unreadable, schedules)
            continue
        try:
            yield from _fire_row(row, row.next_at, now, schedules, deps)
        except InfrastructureError:
            raise
        except NoetlError as error:
            if error.retryable:
                failed = failed or error
            else:
                yield _stop(row, row.next_at, f"{type(error).__name__}: {error}", schedules)
        except BaseException as error:
            failed = failed or as_exception(error)
    if failed is not None:
        raise failed


def _stop(row: ScheduleRow, at: float, why: str, schedules: ScheduleStore) -> Fired:
    """Stop a schedule until it is made again, or paused and resumed."""
    reason = f"schedule {row.name} is stopped, for it cannot be fired: {why}"
    if not schedules.fired(row, at, next_at=None, execution_id=None, error=f"unreadable_row: {why}"):
        schedules.set_paused(row.name, True, None)
    return Fired(row.name, at, reason=reason)


def _fire_row(
    row: ScheduleRow, since: float, now: float, schedules: ScheduleStore, deps: StartDeps
) -> Iterator[Fired]:
    timing = check_timing(timing_of(row))
    times, dropped, left_out = due_moments(row.conduct, timing, since, now, row.last_at)
    skipped = NONE_SKIPPED if left_out is None else _missed(row, *left_out)
    if dropped is not None:
        yield _leave_out(row, dropped, "it was missed, and catch_up is none", schedules, deps, skipped)
    elif not times:
        schedules.pass_over(row, next_fire(timing, max(now, row.last_at or now)))
    following = [*times[1:], next_fire(timing, now)]
    for at, upcoming in zip(times, following, strict=False):
        fired, settled = _fire(row, at, upcoming, schedules, deps, skipped)
        skipped = NONE_SKIPPED
        yield fired
        if not settled:
            return  # another process fires this schedule at the moment
        row = replace(row, last_at=at, latest_execution=fired.execution_id or row.latest_execution)


def start_moment(row: ScheduleRow, at: float, deps: StartDeps, *, answered: bool) -> Started:
    """Start the execution of one fire time, once however often and by any process.

    ``answered``: see ``StartRequest``. Raises as ``start_playbook`` does.
    """
    return start_playbook(
        row.path,
        row.version,
        row.payload,
        by=row.name,
        kind="schedule",
        key=fire_key(row.name, at, row.path),
        deps=deps,
        start_values={"schedule": {"name": row.name, "at": instant(at)}},
        answered=answered,
    )


def _missed(row: ScheduleRow, since: float, until: float) -> Mapping[SkipCause, Skipped]:
    """Say that ``catch_up`` leaves out the moments from ``since`` to ``until``."""
    others = f" with all since {instant(since)}" if since < until else ""
    most = f", and catch_up_max is {row.catch_up_max}" if row.catch_up == "all" else ""
    return {"catch_up": Skipped(until, f"it was missed{others}: catch_up is {row.catch_up}{most}")}


def _fire(
    row: ScheduleRow,
    at: float,
    upcoming: float | None,
    schedules: ScheduleStore,
    deps: StartDeps,
    skipped: Mapping[SkipCause, Skipped] = NONE_SKIPPED,
) -> tuple[Fired, bool]:
    """Start the execution first, then record the firing.

    When a process dies in between, the firing is repeated, and the key makes the repeat the same execution. The second value is false
    when the row is another by now, or knows this moment already. ``skipped``: what was left out before ``at``.
    """
    if row.last_at == at and row.last_execution is not None:
        return Fired(row.name, at, row.last_execution), False
    before = _running(row, deps)
    reason = _overlap(row, at, before)
    if reason:
        skipped = {**skipped, "overlap": Skipped(at, reason)}
        settled = schedules.fired(row, at, next_at=upcoming, execution_id=None, error=reason, skipped=skipped)
        return Fired(row.name, at, reason=reason), settled
    try:
        started = start_moment(row, at, deps, answered=False)
    except NoetlError as error:
        if isinstance(error, InfrastructureError) or error.retryable:
            raise
        error_text = f"{error.code}: {error}"
        skipped = {**skipped, "refused": Skipped(at, error_text)}
        settled = schedules.fired(
            row, at, next_at=upcoming, execution_id=None, error=error_text, skipped=skipped
        )
        return Fired(row.name, at, reason=str(error)), settled
    cancelled = None
    posted: list[Event | None] = [started.event]
    with handing_on(deps.store, deps.owner, posted):
        if before is not None and before != started.execution_id and row.overlap == "cancel_previous":
            cancelled = _cancel(row, at, before, deps)
            posted.append(cancelled)
        settled = schedules.fired(
            row, at, next_at=upcoming, execution_id=started.execution_id, skipped=skipped
        )
    return Fired(row.name, at, started.execution_id, started.event, cancelled=cancelled), settled


def _running(row: ScheduleRow, deps: StartDeps) -> int | None:
    """Return the execution that this schedule started before, while it runs.

    It is not looked up where it does not matter.
    """
    if row.overlap == "allow" or row.latest_execution is None:
        return None
    info = deps.store.info(row.latest_execution)
    return None if info is None or info.status in TERMINAL else info.execution_id


def _overlap(row: ScheduleRow, at: float, before: int | None) -> str:
    if row.overlap == "skip" and before is not None:
        return f"overlap: execution {before} still runs"
    if row.overlap == "cancel_previous" and row.last_at is not None and at < row.last_at:
        return "overlap: a later moment has started already"
    return ""


def _cancel(row: ScheduleRow, at: float, before: int, deps: StartDeps) -> Event | None:
    """Cancel the execution before. None: it has ended meanwhile."""
    change = ChangeRequest(
        row.name,
        f"schedule:{row.name}:{instant(at)}:cancel",
        deps.owner,
        f"the schedule {row.name} started its next execution",
    )
    try:
        return cancel(deps.store, before, change)
    except (ConflictError, NotFoundError):
        return None


def _leave_out(
    row: ScheduleRow,
    at: float,
    reason: str,
    schedules: ScheduleStore,
    deps: StartDeps,
    skipped: Mapping[SkipCause, Skipped] = NONE_SKIPPED,
) -> Fired:
    upcoming = next_fire(timing_of(row), max(at, deps.clock()))
    skipped = skipped or {"catch_up": Skipped(at, reason)}
    schedules.fired(row, at, next_at=upcoming, execution_id=None, error=f"missed: {reason}", skipped=skipped)
    return Fired(row.name, at, reason=reason)
