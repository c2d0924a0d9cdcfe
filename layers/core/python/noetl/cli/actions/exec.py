"""Action of ``noetl exec``: start a playbook, and leave it to other processes."""

from __future__ import annotations

import re
import time

import msgspec

from noetl.cli import errors
from noetl.cli.actions.execute import check_names, entry_of
from noetl.cli.actions.payload import read_payload
from noetl.cli.actions.run_request import RunRequest, checked_text
from noetl.cli.client.connect import open_place
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import note, out, out_json
from noetl.domain.automations.schedules import instant, parse_instant
from noetl.domain.errors import InvalidInputError

_AHEAD = re.compile(r"\+(\d{1,9})\s*([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def start(request: RunRequest, *, moment: str | None, as_json: bool, at: CommandTarget) -> int:
    """Start a playbook. ``moment``: as ``parse_moment`` reads it; None: now."""
    starts_at = None if moment is None else parse_moment(moment, time.time())
    start = msgspec.structs.replace(
        request.start(read_payload(request.payload, request.sets)), starts_at=starts_at
    )
    text, program = checked_text(request.target, at, warn=not as_json, strict=request.strict)
    with open_place(at) as place:
        entry = entry_of(place, request.target, text, warn=not as_json)
        check_names(place, entry, program, request)
        execution_id = place.start(entry, start)
    ahead = starts_at is not None and starts_at > time.time()
    if as_json:
        answer = {"execution_id": str(execution_id), "path": entry.path, "version": entry.version}
        later = {"status": "scheduled", "trigger_at": instant(starts_at or 0)} if ahead else {}
        out_json(answer | later)
        return errors.DONE
    when = f"  starts {instant(starts_at or 0)}" if ahead else ""
    out(f"execution {execution_id}  {entry.path} version {entry.version}{when}")
    if ahead:
        note(f"to cancel it: noetl cancel {execution_id}{at.option}")
    if not at.remote:
        note(
            f"a running `noetl serve` runs it{'' if ahead else f'; without one: noetl resume {execution_id}'}"
        )
    return errors.DONE


def parse_moment(text: str, now: float) -> float:
    """Read a moment as epoch seconds.

    ``2026-12-24T18:00:00Z`` (any offset), or ``+90m`` from now (s, m, h, d).

    Raises InvalidInputError(code="invalid_time").
    """
    ahead = _AHEAD.fullmatch(text.strip())
    if ahead is not None:
        return now + int(ahead[1]) * _SECONDS[ahead[2]]
    try:
        return parse_instant(text.strip())
    except InvalidInputError as error:
        raise InvalidInputError(
            str(error), code=error.code, hint="such as 2026-12-24T18:00:00Z, or +90m, +2h, +3d from now"
        ) from None
