"""``noetl catalog show``: relations of a playbook."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.cli import errors
from noetl.cli.client.connect import open_place
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import clock_time, out, out_json, out_line, table
from noetl.services.catalog.playbook_relations import CallerView, CallView, Relations, StartingSchedule


def show(playbook: str, *, as_json: bool, at: CommandTarget) -> int:
    """Print a table for each relation that there is."""
    with open_place(at) as place:
        found = place.relations(playbook)
    if as_json:
        out_json(found)
        return errors.DONE
    out_line(f"{found.path} version {found.version}")
    _table(("CALLS", "VERSION", "LINE", ""), [_call(one) for one in found.calls], "it calls no playbook")
    callers = [_caller(one) for one in found.callers]
    _table(("CALLED BY", "VERSION", "LINE", ""), callers, "no playbook calls it")
    if not found.complete:
        out_line("not complete: there are more playbooks than one look reads, or one that cannot be read")
    _starts(found)
    return errors.DONE


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
    out("")
    out(table(headers, rows) if rows else nothing)


def _call(one: CallView) -> tuple[str, ...]:
    note = "computed" if one.computed else "" if one.latest is not None else "not registered"
    return one.path, _version(one.version), str(one.line), note


def _caller(one: CallerView) -> tuple[str, ...]:
    return one.path, str(one.version), str(one.line), f"perhaps: {one.called}" if one.computed else ""


def _starts(found: Relations) -> None:
    rows = [(one.name, _rhythm(one), _version(one.version), _when(one)) for one in found.schedules]
    rows += [
        (one.name, one.type, _version(one.version), "enabled" if one.enabled else "disabled")
        for one in found.triggers
    ]
    _table(("STARTED BY", "", "VERSION", "STATE"), rows, "nothing starts it by itself")
    if found.more_starts:
        out_line("there are more: noetl schedule list, noetl trigger list")


def _rhythm(one: StartingSchedule) -> str:
    return f"{one.cron or one.rate} {one.timezone}"


def _when(one: StartingSchedule) -> str:
    return one.state if one.next_at is None else f"{one.state}, next {clock_time(one.next_at)}"


def _version(number: int | None) -> str:
    return "latest" if number is None else str(number)
