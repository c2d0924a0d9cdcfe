"""Retention: removal of executions that ended long ago, with their data, in batches.

Results are removed before the rows that name them, and rows of history before their execution: a process that dies in between leaves work
that the next round finds again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from noetl.domain.automations.schedules import instant
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.text.timestamps import TimeText
from noetl.ports.executions.retention import NOTHING, HistoryLayout, Removed, Retention
from noetl.ports.results import ResultStore
from noetl.ports.task_logs import TaskLogs
from noetl.services.results.collect_results import collect, remove_permanent

DAY = 86_400.0
BATCH = 200
"""Executions in one round."""
ROWS = 10_000
"""Rows of history, variables or moments in one statement."""
COUNTED = 10_000
"""Most executions that a dry run lists."""
MOMENT_DAYS = 366
"""How long it is known which moments of a schedule started something, where executions are kept for ever or longer than that."""
LEAST_SECONDS = 3600.0
"""How long an execution is kept after its end, at least. It has to outlast every delivery of the Start that began it: a Start whose execution
is gone begins it again."""
TOO_LARGE = "retention deletes history row by row: the last partition of noetl.event is too large to get an end while commits wait"
TOO_LARGE_FIX = 'give it one by hand: "Partitions of history" in docs/operations.md'
KEY_SECONDS = 7 * DAY
"""How long an idempotency key is remembered."""


@dataclass(frozen=True, slots=True)
class RetentionDays:
    """The retention of a deployment.

    How many days after their end executions are kept, and (if that is shorter) their variables. None: for ever, or as long as they.
    """

    executions: float | None = None
    variables: float | None = None


@dataclass(frozen=True, slots=True)
class PruneDeps:
    """Dependencies of pruning. ``clock``: epoch seconds. ``days``: the retention that is set.

    It is set for the deployment, or for this machine.
    """

    retention: Retention
    results: ResultStore
    logs: TaskLogs
    clock: Callable[[], float]
    days: RetentionDays = RetentionDays()


class PruneRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to prune.

    ``older_than_days``: since they ended; without it, the deployment's setting. ``dry_run``: only report.

    ``permanent``: instead of executions, results of scope ``permanent`` that were made so long ago (the days have to be named).
    """

    older_than_days: float | None = None
    dry_run: bool = False
    permanent: bool = False


class Pruned(msgspec.Struct, frozen=True):
    """The result of pruning.

    ``before``: executions that ended before then were selected. With ``dry_run`` only executions (or permanent results) are counted.
    ``results``: those removed before their execution. ``status`` partly: there is more, ask again.
    """

    before: TimeText
    dry_run: bool
    status: Literal["complete", "partly"]
    executions: int
    events: int
    variables: int
    results: int = 0


def prune(request: PruneRequest, deps: PruneDeps, more_time: Callable[[], bool]) -> Pruned:
    """Remove executions that ended before a moment.

    It ends when none is left or ``more_time`` says no.

    Raises InvalidInputError (codes ``retention_unset``, ``invalid_retention``), InfrastructureError (ask again).
    """
    if request.permanent:
        return _prune_permanent(request, deps, more_time)
    now = deps.clock()
    before = now - _seconds(request, deps.days)
    if request.dry_run:
        found = deps.retention.old(before, COUNTED)
        status: Literal["complete", "partly"] = "complete" if len(found) < COUNTED else "partly"
        return Pruned(instant(before), True, status, len(found), 0, 0)
    results, looked = collect(deps.retention, deps.results, now, more_time)
    removed, complete = _remove(before, deps, more_time)
    status = "complete" if complete and looked else "partly"
    return Pruned(
        instant(before), False, status, removed.executions, removed.events, removed.variables, results
    )


def _prune_permanent(request: PruneRequest, deps: PruneDeps, more_time: Callable[[], bool]) -> Pruned:
    before = deps.clock() - _seconds(request, RetentionDays())
    if request.dry_run:
        count = len(deps.retention.permanent(before, COUNTED))
        return Pruned(instant(before), True, "complete" if count < COUNTED else "partly", 0, 0, 0, count)
    removed, complete = remove_permanent(deps.retention, deps.results, before, more_time)
    return Pruned(instant(before), False, "complete" if complete else "partly", 0, 0, 0, removed)


def keep_to(
    deps: PruneDeps, more_time: Callable[[], bool], log: Callable[[str], None] = lambda line: None
) -> Removed:
    """Remove everything whose retention is over; maintenance calls this now and then.

    Raises InfrastructureError (retry later).
    """
    now, days, removed = deps.clock(), deps.days, Removed()
    collect(deps.retention, deps.results, now, more_time)
    if days.variables is not None:
        removed += Removed(
            variables=_repeat(deps.retention.remove_variables, now - days.variables * DAY, more_time)
        )
    # Without days there is still what another removal began: it was cut off, and is finished here.
    before = 0.0 if days.executions is None else now - days.executions * DAY
    deferred = _drop(now, before, deps, more_time, log)
    removed += _remove(before, deps, more_time, deferred)[0]
    kept = MOMENT_DAYS if days.executions is None else min(days.executions, MOMENT_DAYS)
    _repeat(deps.retention.remove_moments, now - kept * DAY, more_time)
    return removed


def _drop(
    now: float, before: float, deps: PruneDeps, more_time: Callable[[], bool], log: Callable[[str], None]
) -> range:
    """Create and drop partitions of history.

    Executions whose history is dropped are removed later. When it fails, history is deleted by rows.
    """
    layout = HistoryLayout(overdue=now)
    try:
        if deps.days.executions is not None:
            layout = deps.retention.partition_history(now, now - before)
            if layout.too_large:
                log(f"{TOO_LARGE}; {TOO_LARGE_FIX}")
        while more_time() and deps.retention.drop_history(before, layout.overdue):
            pass
    except InfrastructureError as error:
        log(f"partitions of history are made and dropped later: {error}")
        return NOTHING
    return layout.deferred


def _repeat(remove: Callable[[float, int], int], before: float, more_time: Callable[[], bool]) -> int:
    count = 0
    while more_time():
        found = remove(before, ROWS)
        count += found
        if found < ROWS:
            break
    return count


def _remove(
    before: float, deps: PruneDeps, more_time: Callable[[], bool], deferred: range = NOTHING
) -> tuple[Removed, bool]:
    """Remove a batch. The second value is false when there is more.

    ``deferred``: executions whose history ``drop_history`` removes.
    """
    removed = Removed()
    while more_time():
        claimed = deps.retention.claim(before, BATCH)
        if not claimed:
            return removed, True
        for execution_id in claimed:
            deps.results.delete_execution(execution_id)
            deps.logs.delete_execution(execution_id)
        apart = [execution_id for execution_id in claimed if execution_id not in deferred]
        events = ROWS if apart else 0
        while events == ROWS:
            if not more_time():
                return removed, False
            events = deps.retention.remove_events(apart, ROWS)
            removed += Removed(events=events)
        gone = deps.retention.remove(claimed, deferred)
        removed += gone
        if not gone.executions:
            return removed, True
    return removed, False


def _seconds(request: PruneRequest, days: RetentionDays) -> float:
    age_days = days.executions if request.older_than_days is None else request.older_than_days
    if age_days is None:
        raise InvalidInputError(
            "permanent results go by age alone: say how old they have to be"
            if request.permanent
            else "executions are kept for ever here: say how old they have to be",
            code="retention_unset",
            hint="older_than_days (noetl prune --older-than 30d), or a setting: NOETL_RETENTION_DAYS",
        )
    if not LEAST_SECONDS / DAY <= age_days <= 36_500:
        raise InvalidInputError(
            f"{_age_text(age_days * DAY)} is not between an hour and a hundred years",
            code="invalid_retention",
            hint="such as 30 days (noetl prune --older-than 30d), or 0.5 for half a day (12h)",
        )
    return age_days * DAY


def _age_text(seconds: float) -> str:
    """Return an age in the largest unit of which it has one."""
    for unit, name in ((DAY, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if abs(seconds) >= unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} seconds"
