"""What the commands of ``noetl schedule`` do."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

from noetl.cli import errors, wiring
from noetl.cli.text import clock, note, one_line, out, out_json, pretty, table
from noetl.domain.errors import InfrastructureError
from noetl.domain.schedules import instant
from noetl.domain.state import TERMINAL
from noetl.ports.schedule_store import ScheduleRow
from noetl.services import manage_schedules
from noetl.services.fire_schedule import Fired
from noetl.services.manage_schedules import ScheduleDeps, ScheduleView, find_schedule, next_times, view

_TICK = 0.25
_CHANGES: dict[str, Callable[[ScheduleDeps, str], ScheduleRow]] = {
    "pause": manage_schedules.pause_schedule,
    "resume": manage_schedules.resume_schedule,
    "delete": manage_schedules.delete_schedule,
}


def show_list(*, limit: int, as_json: bool, home: str | None) -> int:
    """Every schedule, by name."""
    with wiring.open_reading(home) as reading:
        found = [view(row) for row in reading.schedules.entries(limit=limit)]
    if as_json:
        for one in found:
            out_json(one)
    elif not found:
        note("there are no schedules: give a playbook metadata.schedule, and `noetl register` it")
    else:
        headers = ("SCHEDULE", "STATE", "WHEN", "NEXT", "LAST", "PLAYBOOK")
        out(table(headers, [_line(one) for one in found]))
    return errors.DONE


def _line(one: ScheduleView) -> tuple[str, ...]:
    last = "failed" if one.last_error else one.last_execution_id or "-"
    return (one.name, one.state, _when(one), one.next_at or "-", last, one.path)


def _when(one: ScheduleView) -> str:
    return f"every {one.rate}" if one.rate else f"{one.cron} {one.timezone}"


def show(name: str, *, as_json: bool, home: str | None) -> int:
    """One schedule."""
    with wiring.open_reading(home) as reading:
        _tell(view(find_schedule(reading.schedules, name)), as_json)
    return errors.DONE


def _tell(one: ScheduleView, as_json: bool) -> None:
    if as_json:
        out_json(one)
        return
    version = "latest version" if one.version is None else f"version {one.version}"
    out(f"{one.name}  {one.state}  {_when(one)}")
    out(f"starts {one.path}, {version}{'' if one.declared else ' (made by hand)'}")
    if one.next_at:
        out(f"next {one.next_at}")
    if one.last_at:
        out(f"last {one.last_at}  execution {one.last_execution_id or '-'}")
    if one.last_error:
        out(f"last error: {one_line(one.last_error, 400)}")
    if one.payload:
        out(pretty({"payload": one.payload}))


def show_next(name: str, *, count: int, as_json: bool, home: str | None) -> int:
    """The next moments, in the schedule's zone and in UTC."""
    with wiring.open_reading(home) as reading:
        row = find_schedule(reading.schedules, name)
    for at in next_times(row, time.time(), count):
        local = datetime.fromtimestamp(at, ZoneInfo(row.timezone))
        if as_json:
            out_json({"schedule": row.name, "at": instant(at), "local": local.isoformat()})
        else:
            out(f"{local:%a %Y-%m-%d %H:%M %Z}  {instant(at)}")
    if not row.active:
        note(f"it is {view(row).state}, so it fires at none of these")
    return errors.DONE


def change(what: Literal["pause", "resume", "delete"], name: str, *, as_json: bool, home: str | None) -> int:
    """Pause, resume or delete one."""
    with wiring.open_reading(home) as reading:
        deps = ScheduleDeps(reading.schedules, None, reading.catalog, reading.programs, time.time)
        row = _CHANGES[what](deps, name)
    if what != "delete":
        _tell(view(row), as_json)
    elif as_json:
        out_json({"name": row.name, "deleted": True})
    else:
        out(f"{row.name} is deleted")
        if row.declared:
            note(f"{row.path} still declares it: it comes back when that is registered again")
    return errors.DONE


def run(*, as_json: bool, home: str | None) -> int:
    """Fire and run until interrupted (which ends with the code of an interruption)."""
    told: queue.SimpleQueue[Fired] = queue.SimpleQueue()
    with wiring.open_scheduler(home, on_fired=told.put, on_log=note) as runtime:
        runtime.recover()
        live: set[int] = set()
        if not as_json:
            count = len(runtime.schedules.entries(limit=10_000))
            out(f"{count} schedule{'' if count == 1 else 's'}; interrupt to end")
        while True:
            for fired in _waiting(told):
                _tell_fired(fired, as_json)
                if fired.event is not None and fired.execution_id is not None:
                    live.add(fired.execution_id)
            try:
                live -= _ended(runtime, live, as_json)
            except InfrastructureError as away:
                note(f"the database is away: {away}")


def _waiting(told: queue.SimpleQueue[Fired]) -> list[Fired]:
    """Whatever is told within a moment."""
    found = []
    try:
        found.append(told.get(timeout=_TICK))
        while True:
            found.append(told.get_nowait())
    except queue.Empty:
        return found


def _tell_fired(fired: Fired, as_json: bool) -> None:
    facts: dict[str, Any] = {
        "event": "schedule.fired",
        "schedule": fired.name,
        "at": instant(fired.at),
        "execution_id": None if fired.execution_id is None else str(fired.execution_id),
        "error": fired.reason or None,
    }
    if as_json:
        out_json(facts)
    elif fired.execution_id is None:
        out(f"{clock(time.time())}  {fired.name}  not started: {one_line(fired.reason, 400)}")
    elif fired.event is not None:
        out(f"{clock(time.time())}  {fired.name}  execution {fired.execution_id}")


def _ended(runtime: wiring.Reading, live: set[int], as_json: bool) -> set[int]:
    ended = set()
    for execution_id in sorted(live):
        info = runtime.store.info(execution_id)
        if info is not None and info.status in TERMINAL:
            ended.add(execution_id)
            if as_json:
                out_json(
                    {"event": "execution.ended", "execution_id": str(execution_id), "status": info.status}
                )
            else:
                out(f"{clock(time.time())}  {info.path}  execution {execution_id} {info.status}")
    return ended
