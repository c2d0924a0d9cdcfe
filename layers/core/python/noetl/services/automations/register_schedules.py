"""Registration of a playbook's schedule in the table and in the scheduler."""

from __future__ import annotations

import math

from msgspec.structs import replace

from noetl.domain.automations.schedules import Timing, name_for, next_fire
from noetl.domain.errors import ConflictError
from noetl.dsl.program import Program
from noetl.ports.automations.schedule_store import ScheduleRow, ScheduleStore
from noetl.ports.automations.schedules import ScheduleEntry, Schedules
from noetl.services.automations.fire_schedule import timing_of


def register_schedule(
    path: str, program: Program, *, store: ScheduleStore, schedules: Schedules | None, now: float
) -> ScheduleRow | None:
    """Apply the schedule that a registered playbook declares, and return it, if any.

    Call it whenever a playbook was registered, also unchanged: repeating it repairs. ``schedules`` None: the process that reads the
    table fires them (a local scheduler). Raises ConflictError(code="schedule_name_taken"), InvalidInputError for an expression that
    ``schedules`` cannot express.
    """
    spec = program.schedule
    name = "" if spec is None else spec.name or name_for(path)
    row = None
    if spec is not None:
        row = put(
            ScheduleRow(
                name,
                path,
                0.0,
                cron=spec.cron,
                rate=spec.rate,
                timezone=spec.timezone,
                payload=spec.payload,
                enabled=spec.enabled,
                declared=True,
                catch_up=spec.catch_up,
                catch_up_max=spec.catch_up_max,
                overlap=spec.overlap,
            ),
            store=store,
            schedules=schedules,
            now=now,
        )
    for gone in store.delete_declared(path, keep=name):
        if schedules is not None:
            schedules.delete(gone)
    return row


def put(row: ScheduleRow, *, store: ScheduleStore, schedules: Schedules | None, now: float) -> ScheduleRow:
    """Store a schedule whose timing has been checked, with its anchor and next time.

    Raises as ``register_schedule`` does.
    """
    old = store.get(row.name)
    row = _dated(row, old, now)
    if not store.put(row):
        owner = store.get(row.name)
        raise ConflictError(
            f"the schedule {row.name} belongs to {'another playbook' if owner is None else owner.path}",
            code="schedule_name_taken",
            hint="give one of them another metadata.schedule.name, or delete it: `noetl schedule delete`",
        )
    kept = store.get(row.name) or row
    if schedules is not None:
        schedules.put(entry_of(kept))
    return kept


def _dated(row: ScheduleRow, old: ScheduleRow | None, now: float) -> ScheduleRow:
    """Return the row with its anchor and next time.

    An unchanged timing keeps its count, a changed one begins now.
    """
    if old is not None and _rhythm(old) == _rhythm(row):
        row = replace(row, anchor=old.anchor)
        keeps = old.active and row.enabled and old.next_at is not None
        return replace(row, next_at=old.next_at if keeps else upcoming(row, now, old.last_at))
    # Timings are told apart by their anchors, also where two clocks give the same second.
    least = -math.inf if old is None else old.anchor + 1
    row = replace(row, anchor=max(float(math.floor(now)), least))
    return replace(row, next_at=upcoming(row, now, None if old is None else old.last_at))


def upcoming(row: ScheduleRow, now: float, last_at: float | None) -> float | None:
    """Return when a schedule fires next.

    What is settled up to ``last_at`` is not due again, however late the clock says that it is.
    """
    return next_fire(timing_of(row), now if last_at is None else max(now, last_at))


def _rhythm(row: ScheduleRow) -> Timing:
    return Timing(row.cron, row.rate, row.timezone)


def entry_of(row: ScheduleRow) -> ScheduleEntry:
    """Build the entry that the scheduler is asked to create."""
    return ScheduleEntry(
        name=row.name,
        path=row.path,
        cron=row.cron,
        rate=row.rate,
        timezone=row.timezone,
        version=row.version,
        payload=row.payload,
        enabled=row.active,
        catch_up=row.catch_up,
    )
