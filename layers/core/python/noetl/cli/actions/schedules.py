"""Actions of ``noetl schedule``."""

from __future__ import annotations

import queue
import time
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from noetl.cli import errors
from noetl.cli.client import runtime_access
from noetl.cli.client.connect import open_place
from noetl.cli.client.protocol import Change
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import clock, note, note_log, one_line, out, out_json, pretty, table
from noetl.domain.automations.schedules import instant
from noetl.domain.errors import InfrastructureError
from noetl.domain.state import TERMINAL
from noetl.services.automations.backfill import BackfillRequest
from noetl.services.automations.fire_schedule import Fired
from noetl.services.automations.schedules import ScheduleView

_TICK = 0.25
_SHOWN_REASON = 120
_NAMED = 100
"""Most executions of earlier processes that `run` names, with their ends."""


def show_list(*, limit: int, as_json: bool, at: CommandTarget) -> int:
    """Every schedule, by name."""
    with open_place(at) as place:
        found = place.schedules(limit)
    if as_json:
        for one in found:
            out_json(one)
    elif not found:
        note("there are no schedules: give a playbook metadata.schedule, and `noetl register` it")
    else:
        headers = ("SCHEDULE", "STATE", "WHEN", "NEXT", "LAST", "PLAYBOOK", "LAST SKIPPED")
        out(table(headers, [_line(one) for one in found]))
    return errors.DONE


def _line(one: ScheduleView) -> tuple[str, ...]:
    newest = one.skips[0] if one.skips else None
    last = "failed" if one.last_error else one.last_execution_id or "-"
    if newest is not None and newest.at == one.last_at and newest.cause != "refused":
        last = "skipped"
    skipped = "-" if newest is None else f"{newest.at}  {one_line(newest.reason, _SHOWN_REASON)}"
    return (one.name, one.state, _when(one), one.next_at or "-", last, one.path, skipped)


def _when(one: ScheduleView) -> str:
    return f"every {one.rate}" if one.rate else f"{one.cron} {one.timezone}"


def show(name: str, *, as_json: bool, at: CommandTarget) -> int:
    """One schedule."""
    with open_place(at) as place:
        _print(place.schedule(name), as_json)
    return errors.DONE


def _print(one: ScheduleView, as_json: bool) -> None:
    if as_json:
        out_json(one)
        return
    version = "latest version" if one.version is None else f"version {one.version}"
    out(f"{one.name}  {one.state}  {_when(one)}")
    out(f"starts {one.path}, {version}{'' if one.declared else ' (made by hand)'}")
    missed = f"all, at most {one.catch_up_max}" if one.catch_up == "all" else one.catch_up
    out(f"missed moments: {missed}; overlap: {one.overlap}")
    if one.next_at:
        out(f"next {one.next_at}")
    if one.last_at:
        out(f"last {one.last_at}  execution {one.last_execution_id or '-'}")
    if one.last_error:
        out(f"last error: {one_line(one.last_error, 400)}")
    for skip in one.skips:
        out(f"skipped {skip.at}  {one_line(skip.reason, 400)}")
    if one.payload:
        out(pretty({"payload": one.payload}))


def show_next(name: str, *, count: int, as_json: bool, at: CommandTarget) -> int:
    """The next moments, in the schedule's zone and in UTC."""
    with open_place(at) as place:
        one = place.schedule(name)
        times = place.next_times(name, count)
    for moment in times:
        local = datetime.fromtimestamp(moment, ZoneInfo(one.timezone))
        if as_json:
            out_json({"schedule": one.name, "at": instant(moment), "local": local.isoformat()})
        else:
            out(f"{local:%a %Y-%m-%d %H:%M %Z}  {instant(moment)}")
    if one.state != "active":
        note(f"it is {one.state}, so it fires at none of these")
    return errors.DONE


def backfill(name: str, request: BackfillRequest, *, as_json: bool, at: CommandTarget) -> int:
    """Start moments of the past; 1 when one was refused."""
    with open_place(at) as place:
        done = place.backfill(name, request)
    if as_json:
        out_json(done)
    elif not done.moments:
        note(
            f"{name} has {'missed none' if request.only_missed else 'no moment'} from {request.since} to {request.until}"
        )
    else:
        rows = [
            (one.at, one.status, one.execution_id or one_line(one.error or "-", 400)) for one in done.moments
        ]
        out(table(("MOMENT", "STATE", "EXECUTION"), rows))
    if done.next is not None:
        note(f"there are more: continue with --from {done.next}")
    if not at.remote and any(one.status == "started" for one in done.moments):
        note("`noetl schedule run` or `noetl serve` runs them; so does `noetl resume`")
    return errors.FAILED if any(one.status == "refused" for one in done.moments) else errors.DONE


def change(what: Change, name: str, *, as_json: bool, at: CommandTarget) -> int:
    """Pause, resume or delete one."""
    with open_place(at) as place:
        before = place.schedule(name)
        after = place.change_schedule(what, name)
    if what != "delete" and after is not None:
        _print(after, as_json)
    elif as_json:
        out_json({"name": before.name, "deleted": True})
    else:
        out(f"{before.name} is deleted")
        if before.declared:
            note(f"{before.path} still declares it: it comes back when that is registered again")
    return errors.DONE


def run(*, as_json: bool, home: str | None) -> int:
    """Fire and run until interrupted (which ends with the code of an interruption)."""
    fired_queue: queue.SimpleQueue[Fired] = queue.SimpleQueue()
    with runtime_access.open_scheduler(home, on_fired=fired_queue.put, on_log=note_log) as runtime:
        left = runtime.recover()
        if not as_json:
            count = len(runtime.schedules.entries(limit=10_000))
            out(f"{count} schedule{'' if count == 1 else 's'}; interrupt to end")
        waiting = _waiting(fired_queue)
        begun = {fired.execution_id for fired in waiting}
        live = _continued(runtime, [one for one in left if one not in begun], as_json)
        while True:
            for fired in waiting:
                _print_fired(fired, as_json)
                if fired.event is not None and fired.execution_id is not None:
                    live.add(fired.execution_id)
            try:
                live -= _ended(runtime, live, as_json)
            except InfrastructureError as outage:
                note(f"the database does not answer: {outage}")
            waiting = _waiting(fired_queue)


def _waiting(fired: queue.SimpleQueue[Fired]) -> list[Fired]:
    """Return the starts that the scheduler reports within a moment."""
    found = []
    try:
        found.append(fired.get(timeout=_TICK))
        while True:
            found.append(fired.get_nowait())
    except queue.Empty:
        return found


def _print_fired(fired: Fired, as_json: bool) -> None:
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


def _continued(runtime: runtime_access.Reading, left: list[int], as_json: bool) -> set[int]:
    """Name the executions that were under way before, such as those of a backfill."""
    for execution_id in left[:_NAMED]:
        info = runtime.store.info(execution_id)
        if as_json:
            out_json({"event": "execution.continued", "execution_id": str(execution_id)})
        elif info is not None:
            out(f"{clock(time.time())}  {info.path}  execution {execution_id} continues")
    if len(left) > _NAMED and not as_json:
        out(f"… and {len(left) - _NAMED:,} more")
    return set(left[:_NAMED])


def _ended(runtime: runtime_access.Reading, live: set[int], as_json: bool) -> set[int]:
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
