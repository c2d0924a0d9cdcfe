"""A schedule fires: one execution per schedule and moment, whoever tells of it and however often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.domain.events import Start
from noetl.domain.schedules import Timing, fire_key, next_fire
from noetl.ports.schedule_store import ScheduleRow, ScheduleStore
from noetl.services.start_playbook import StartDeps, start_playbook


@dataclass(frozen=True, slots=True)
class Fired:
    """``event`` has to be published, when there is one. ``execution_id`` None: nothing was started, and ``reason`` says why."""

    name: str
    at: float
    execution_id: int | None = None
    event: Start | None = None
    reason: str = ""


def timing_of(row: ScheduleRow) -> Timing:
    return Timing(row.cron, row.rate, row.timezone, row.anchor)


def fire_schedule(name: str, at: float, schedules: ScheduleStore, deps: StartDeps) -> Fired:
    """EventBridge Scheduler says that ``name`` is due since ``at``. The table says what that means: a schedule that is gone or paused
    starts nothing, also when somebody still tells of it.

    Raises InfrastructureError (tell again).
    """
    row = schedules.get(name)
    if row is None:
        return Fired(name, at, reason="there is no such schedule")
    if not row.active:
        return Fired(name, at, reason="it is paused" if row.paused else "it is disabled")
    return _fire(row, at, schedules, deps)


def fire_due(schedules: ScheduleStore, deps: StartDeps, limit: int = 100) -> Iterator[Fired]:
    """Fire what is due by the table's own times, each schedule once however many moments were missed.

    Several processes may do so at once. Raises InfrastructureError (what is left is still due).
    """
    for row in schedules.due(deps.clock(), limit):
        if row.next_at is not None:
            yield _fire(row, row.next_at, schedules, deps)


def _fire(row: ScheduleRow, at: float, schedules: ScheduleStore, deps: StartDeps) -> Fired:
    """Start first, then remember: whoever dies in between is repeated, and the key makes the repeat the same execution."""
    key = fire_key(row.name, at)
    upcoming = next_fire(timing_of(row), max(at, deps.clock()))
    try:
        started = start_playbook(
            row.path, row.version, row.payload, by=row.name, kind="schedule", key=key, deps=deps
        )
    except NoetlError as error:
        if isinstance(error, InfrastructureError) or error.retryable:
            raise
        schedules.fired(row, at, next_at=upcoming, execution_id=None, error=f"{error.code}: {error}")
        return Fired(row.name, at, reason=str(error))
    schedules.fired(row, at, next_at=upcoming, execution_id=started.execution_id)
    return Fired(row.name, at, started.execution_id, started.event)
