"""Putting playbooks into the catalog: by name, or because the one that is run may call them."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from noetl.cli import errors, wiring
from noetl.cli.playbooks import playbook_files, playbook_text
from noetl.cli.text import note, out, out_json
from noetl.domain.errors import InvalidInputError, PlaybookError
from noetl.ports.schedule_store import ScheduleRow
from noetl.services.manage_schedules import view
from noetl.services.register_playbook import SUFFIXES, is_playbook
from noetl.services.register_schedules import register_schedule

_CALLS = re.compile(r"""\bkind["']?\s*:\s*["']?playbook\b""")
_MOST = 200


def register(targets: Sequence[str], *, as_json: bool, home: str | None) -> int:
    """Register playbook files (or folders of them) under their paths; unchanged ones keep their version."""
    with wiring.open_reading(home) as reading:
        for file in playbook_files(targets):
            entry = reading.programs.register(playbook_text(file), source_name=str(file.resolve()))
            schedule = register_schedule(
                entry.path,
                reading.programs(entry.program),
                store=reading.schedules,
                schedules=None,
                now=time.time(),
            )
            if as_json:
                out_json(
                    {
                        "path": entry.path,
                        "version": entry.version,
                        "name": entry.name,
                        "file": str(file),
                        "schedule": schedule and view(schedule),
                    }
                )
            else:
                out(f"{entry.path} version {entry.version}{_fires(schedule)}")
    return errors.DONE


def _fires(schedule: ScheduleRow | None) -> str:
    if schedule is None:
        return ""
    shown = view(schedule)
    if shown.next_at is None:
        return f"  schedule {shown.name} is {shown.state}"
    return f"  schedule {shown.name} fires next at {shown.next_at} (while `noetl schedule run` does)"


def register_neighbours(runtime: wiring.Runtime, text: str, file: Path) -> None:
    """A playbook that calls others finds those beside it: what is in its folder is registered first, as it is now."""
    if not _CALLS.search(text):
        return
    beside = [one for one in sorted(file.parent.iterdir()) if one.suffix in SUFFIXES and one != file]
    for one in beside[:_MOST]:
        if is_playbook(one):
            try:
                runtime.register(playbook_text(one), source_name=str(one))
            except (PlaybookError, InvalidInputError):
                note(f"{errors.near(str(one))} is not registered: `noetl validate` tells why")
