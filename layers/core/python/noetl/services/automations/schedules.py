"""The schedule service: list, create, pause, resume, delete, and next fire times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from noetl.domain.automations.missed_run_policy import (
    MOST_CAUGHT_UP,
    CatchUp,
    Overlap,
    SchedulePolicy,
    check_conduct,
)
from noetl.domain.automations.schedules import Timing, check_name, check_timing, instant, name_for, next_fires
from noetl.domain.errors import ConflictError, InvalidInputError, NotFoundError
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import NEXT_MOMENTS
from noetl.domain.text.timestamps import TimeText
from noetl.dsl.program import Program
from noetl.ports.automations.schedule_store import ScheduleRow, ScheduleStore, SkipCause
from noetl.ports.automations.schedules import Schedules
from noetl.ports.catalog import Catalog
from noetl.services.automations.fire_schedule import timing_of
from noetl.services.automations.register_schedules import entry_of, put, register_schedule, upcoming
from noetl.services.catalog.find_playbook import check_path, find_playbook
from noetl.services.executions.start_execution import check_payload

ScheduleState = Literal["active", "paused", "disabled"]
MAX_NEXT = NEXT_MOMENTS.value
SUGGESTED_FROM = 1000


class ScheduleDeps(msgspec.Struct, frozen=True):
    """Dependencies of the schedule service.

    ``schedules`` None: the process that reads the table fires them. ``programs``: hash → Program. ``clock``: epoch seconds.
    """

    store: ScheduleStore
    schedules: Schedules | None
    catalog: Catalog
    programs: Callable[[str], Program]
    clock: Callable[[], float]


class ScheduleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule made by hand.

    ``name``: made of the path unless set. One of ``cron`` and ``rate``. ``catch_up``: what is done about
    missed moments; ``overlap``: about a start while the execution before still runs.
    """

    path: str
    name: str | None = None
    cron: str | None = None
    rate: str | None = None
    timezone: str = "UTC"
    version: int | None = None
    payload: dict[str, Any] = {}
    enabled: bool = True
    catch_up: CatchUp = "once"
    catch_up_max: int = MOST_CAUGHT_UP
    overlap: Overlap = "allow"


class SkipView(msgspec.Struct, frozen=True):
    """The newest moment that started nothing for one cause.

    ``cause``: catch_up (it was missed), overlap (an execution was in the way) or refused (the start was).
    """

    cause: SkipCause
    at: TimeText
    reason: str


class ScheduleView(msgspec.Struct, frozen=True):
    """A schedule as it is shown.

    ``state``: active, paused (by an operator) or disabled (by its maker). ``declared``: by its playbook.
    Moments are ISO 8601 in UTC; ``last_error``: why the last firing started nothing. ``skipped_at``: the newest moment that started
    nothing, also when later ones did, and ``skipped_reason`` says why. ``skips``: the newest for each cause, the newest first.
    """

    name: str
    path: str
    version: int | None
    cron: str | None
    rate: str | None
    timezone: str
    payload: dict[str, Any]
    state: str
    declared: bool
    next_at: TimeText | None
    last_at: TimeText | None
    last_execution_id: str | None
    last_error: str | None
    catch_up: CatchUp
    catch_up_max: int
    overlap: Overlap
    skipped_at: TimeText | None = None
    skipped_reason: str | None = None
    skips: list[SkipView] = []


def view(row: ScheduleRow) -> ScheduleView:
    return ScheduleView(
        name=row.name,
        path=row.path,
        version=row.version,
        cron=row.cron,
        rate=row.rate,
        timezone=row.timezone,
        payload=row.payload,
        state=state_of(row),
        declared=row.declared,
        next_at=next_of(row),
        last_at=None if row.last_at is None else instant(row.last_at),
        last_execution_id=None if row.last_execution is None else str(row.last_execution),
        last_error=row.unreadable or row.last_error or None,
        catch_up=row.catch_up,
        catch_up_max=row.catch_up_max,
        overlap=row.overlap,
        skipped_at=None if row.skipped_at is None else instant(row.skipped_at),
        skipped_reason=row.skipped_reason or None,
        skips=[
            SkipView(cause, instant(one.at), one.reason)
            for cause, one in sorted(row.skips.items(), key=lambda skip: -skip[1].at)
        ],
    )


def next_of(row: ScheduleRow) -> str | None:
    """Return when a schedule fires next; None while it does not."""
    return instant(row.next_at) if row.active and row.next_at is not None else None


def state_of(row: ScheduleRow) -> ScheduleState:
    """Return the word for what its maker and an operator say of a schedule."""
    return "paused" if row.paused else "active" if row.enabled else "disabled"


def find_schedule(store: ScheduleStore, name: str) -> ScheduleRow:
    """Find a schedule by name.

    Raises NotFoundError(code="schedule_not_found") with what was probably meant.
    """
    row = store.get(name)
    if row is None:
        from noetl.dsl.diagnostics import did_you_mean

        names = [one.name for one in store.entries(limit=SUGGESTED_FROM)]
        raise NotFoundError(
            f"there is no schedule {name[:200]!r}",
            code="schedule_not_found",
            hint=did_you_mean(name, names, "playbooks declare schedules under metadata.schedule"),
        )
    return row


class StoredSchedule(msgspec.Struct, frozen=True):
    """A stored schedule. ``fresh``: there was none of this name."""

    row: ScheduleRow
    fresh: bool


def put_schedule(deps: ScheduleDeps, request: ScheduleRequest) -> StoredSchedule:
    """Create a schedule by hand, or replace one that was made by hand.

    Raises InvalidInputError, NotFoundError (of the playbook), ConflictError when a playbook declares the schedule of that name,
    InfrastructureError.
    """
    timing = check_timing(Timing(request.cron, request.rate, request.timezone))
    conduct = check_conduct(SchedulePolicy(request.catch_up, request.catch_up_max, request.overlap))
    entry = find_playbook(deps.catalog, check_path(request.path), request.version)
    check_payload(deps.programs(entry.program), request.payload)
    name = name_for(request.path) if request.name is None else check_name(request.name)
    old = deps.store.get(name)
    if old is not None and old.declared:
        raise ConflictError(
            f"the playbook {old.path} declares the schedule {name}",
            code="schedule_declared",
            hint="change it there and register the playbook, or give this one another name",
        )
    row = ScheduleRow(
        name,
        request.path,
        0.0,
        cron=timing.cron,
        rate=timing.rate,
        timezone=timing.timezone,
        version=request.version,
        payload=request.payload,
        enabled=request.enabled,
        catch_up=conduct.catch_up,
        catch_up_max=conduct.catch_up_max,
        overlap=conduct.overlap,
    )
    return StoredSchedule(put(row, store=deps.store, schedules=deps.schedules, now=deps.clock()), old is None)


def pause_schedule(deps: ScheduleDeps, name: str) -> ScheduleRow:
    """Pause a schedule until it is resumed, also when its playbook is registered meanwhile.

    Raises NotFoundError.
    """
    return _set_paused(deps, name, True)


def resume_schedule(deps: ScheduleDeps, name: str) -> ScheduleRow:
    """Resume a schedule: it fires from now on; missed runs stay missed. Raises NotFoundError."""
    return _set_paused(deps, name, False)


def _set_paused(deps: ScheduleDeps, name: str, paused: bool) -> ScheduleRow:
    row = find_schedule(deps.store, name)
    if row.paused != paused:
        next_at = upcoming(row, deps.clock(), row.last_at)
        row = deps.store.set_paused(name, paused, next_at) or find_schedule(deps.store, name)
    if deps.schedules is not None:
        deps.schedules.put(entry_of(row))
    return row


def delete_schedule(deps: ScheduleDeps, name: str) -> ScheduleRow:
    """Delete a schedule and return it as it was. Raises NotFoundError.

    One that a playbook declares is created again when that is registered again.
    """
    row = find_schedule(deps.store, name)
    if deps.schedules is not None:
        deps.schedules.delete(name)
    deps.store.delete(name)
    return row


def next_times(row: ScheduleRow, now: float, count: int) -> Sequence[float]:
    """Return when a schedule would fire next, were it active.

    Raises InvalidInputError for a count out of 1 … 100.
    """
    if count > MAX_NEXT:
        raise exceeded(NEXT_MOMENTS, count, "the count", code="invalid_parameter")
    if count < 1:
        raise InvalidInputError(f"the count is {count}, not 1 to {MAX_NEXT}", code="invalid_parameter")
    return next_fires(timing_of(row), now, count)


def declared(deps: ScheduleDeps) -> Callable[[Program, str, int], None]:
    """Return the function that applies the schedule of a registered playbook."""

    def registered(program: Program, path: str, version: int) -> None:
        register_schedule(path, program, store=deps.store, schedules=deps.schedules, now=deps.clock())

    return registered
