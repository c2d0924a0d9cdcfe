"""Registration of playbooks, by name or as possible callees."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from noetl.cli import errors
from noetl.cli.actions.playbook_paths import path_of, refuse_collisions
from noetl.cli.client.connect import open_place
from noetl.cli.client.protocol import Place
from noetl.cli.commands.playbooks import playbook_files, playbook_text
from noetl.cli.commands.rewriting.migrate import migrated_text
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import note, out, out_json
from noetl.domain.errors import InvalidInputError, PlaybookError
from noetl.services.automations.schedules import ScheduleView
from noetl.services.catalog.files_beside import text_with_files
from noetl.services.catalog.register_playbook import SUFFIXES, is_playbook

_CALLS = re.compile(r"""\bkind["']?\s*:\s*["']?playbook\b|\bplaybook["']?\s*:""")
_MOST = 200
_DEEPEST = 3
"""Folders below each other in which children are looked for."""
_VALUE = re.compile(r""":[ \t]*["']?([\w./-]+)["']?[ \t]*(?:$|[,}#])""", re.MULTILINE)
"""A whole value that may be the path of a playbook."""


def register(targets: Sequence[str], *, as_json: bool, at: CommandTarget, migrate: bool = False) -> int:
    """Register playbook files, or folders of them, under their paths.

    Unchanged ones keep their version.

    ``migrate``: as today's language has them; files stay as they are.
    """
    playbooks = [
        (file, text_with_files(migrated_text(file) if migrate else playbook_text(file), file))
        for file in playbook_files(targets)
    ]
    refuse_collisions(playbooks)
    with open_place(at) as place:
        for file, text in playbooks:
            entry, schedule = place.register_scheduled(text, source_name=str(file.resolve()))
            if as_json:
                out_json(
                    {
                        "path": entry.path,
                        "version": entry.version,
                        "name": entry.name,
                        "file": str(file),
                        "schedule": schedule,
                    }
                )
            else:
                out(f"{entry.path} version {entry.version}{_fires(schedule, at)}")
    return errors.DONE


def _readable(file: Path) -> str | None:
    try:
        return text_with_files(playbook_text(file), file)
    except InvalidInputError:
        return None


def _fires(schedule: ScheduleView | None, at: CommandTarget) -> str:
    if schedule is None:
        return ""
    if schedule.next_at is None:
        return f"  schedule {schedule.name} is {schedule.state}"
    condition = "" if at.remote else " (if `noetl schedule run` or `noetl serve` is running then)"
    return f"  schedule {schedule.name} fires next at {schedule.next_at}{condition}"


def _called_below(folder: Path, texts: list[str]) -> list[tuple[Path, str | None]]:
    """Return the playbooks in folders below that these texts call, or those that they call.

    A path that two of them claim is left out: which of them is meant, only the catalog can say.
    """
    claimed: dict[str, list[tuple[Path, str]]] = {}
    for one in _files_below(folder):
        found = _readable(one) if is_playbook(one) else None
        if found is not None and (path := path_of(found)):
            claimed.setdefault(path, []).append((one, found))
    known = {path: found[0] for path, found in claimed.items() if len(found) == 1}
    called: list[tuple[Path, str | None]] = []
    for text in texts:
        for path in sorted(known.keys() & set(_VALUE.findall(text))):
            child = known.pop(path)
            called.append(child)
            texts.append(child[1])
    return called


def _files_below(folder: Path) -> list[Path]:
    """Return the YAML files in folders below, the nearest first."""
    found: list[Path] = []
    folders = [one for one in sorted(folder.iterdir()) if _is_own(one)]
    for _ in range(_DEEPEST):
        inner = [one for folder in folders for one in sorted(folder.iterdir())]
        found += [one for one in inner if one.suffix in SUFFIXES and one.is_file()]
        folders = [one for one in inner if _is_own(one)]
    return found[:_MOST]


def _is_own(folder: Path) -> bool:
    hidden = folder.name.startswith((".", "_")) or folder.name == "node_modules"
    return not hidden and folder.is_dir() and not folder.is_symlink() and os.access(folder, os.R_OK | os.X_OK)


def register_neighbours(place: Place, text: str, file: Path) -> None:
    """Register the playbooks beside one that calls others.

    What is in its folder is registered first, as it is now; of folders below it, what is called.
    """
    if not _CALLS.search(text):
        return
    beside = [one for one in sorted(file.parent.iterdir()) if one.suffix in SUFFIXES and one != file]
    playbooks = [(one, _readable(one)) for one in beside[:_MOST] if is_playbook(one)]
    playbooks += _called_below(file.parent, [text, *(found or "" for _, found in playbooks)])
    refuse_collisions([(file, text), *((one, found) for one, found in playbooks if found is not None)])
    for one, found in playbooks:
        if found is None:
            note(
                f"warning: {errors.near(str(one))} is not registered as a sub-playbook: it is not UTF-8 text"
            )
        else:
            try:
                place.register(found, source_name=str(one))
            except (PlaybookError, InvalidInputError):
                name = errors.near(str(one))
                note(
                    f"warning: {name} is not registered as a sub-playbook, because it is invalid: `noetl validate {name}` shows its errors"
                )
