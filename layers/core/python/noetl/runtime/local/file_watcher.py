"""The watcher of ``file`` triggers' folders: a new or changed file starts one execution.

Each process that serves may run it. A file is one event per (path, time of its last change, size), once two looks in a
row have found it the same: a file that is still being written waits. The watcher keeps what it has seen in the home
folder. So no file fires again after a restart, and a file that changed while no process ran does fire.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from noetl.adapters.embedded.files import PartFile
from noetl.domain.automations.schedules import instant
from noetl.domain.automations.triggers import FileSource
from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.kinds.support.open_parts import is_open_folder
from noetl.ports.automations.trigger_store import TriggerRow, TriggerStore
from noetl.services.automations.fire_schedule import Fired
from noetl.services.automations.fire_trigger import TriggerEvent, fire_trigger
from noetl.services.executions.start_playbook import StartDeps

MOST_TRIGGERS = 1000
MOST_FILES = 100_000
"""Most files of a folder that the watcher looks at; it logs once that there are more, and the rest waits."""
FEEDING_LOOKS = 100
"""Looks that each start something for a file that was written after the last start: the watcher reports that a trigger may feed itself."""
FEEDING_SECONDS = 60.0
"""Longest pause between two starts of a trigger that feeds itself, as far as that is looked for."""

KEEP_SECONDS = 1.0
"""Between two writes of what was seen, while many files come at once: each holds all files of the folder. After a crash, a file whose start
was not kept starts the same execution, by its event's id."""

Seen = dict[str, list[int]]
"""Name → time of the last change (nanoseconds) and size."""


class FileWatcher:
    """A watcher of the folders of all ``file`` triggers.

    ``folder``: keeps what it has seen. ``hidden``: folders and files whose names no trigger shows to a playbook.
    """

    def __init__(
        self,
        triggers: TriggerStore,
        deps: StartDeps,
        folder: Path,
        log: Callable[[str], None],
        hidden: Iterable[str] = (),
    ) -> None:
        self._triggers = triggers
        self._deps = deps
        self._folder = folder
        self._log = log
        self._seen: dict[str, Seen] = {}
        self._before: dict[str, Seen] = {}
        """What the last look found."""
        self._logged: dict[str, str] = {}
        self._hidden = tuple(hidden)
        self._fed: dict[str, tuple[int, float]] = {}
        """Looks in a row that started something for a file written since the last start, and the time of that start."""

    def look(self) -> Iterator[Fired]:
        """Look at every folder once, and yield what was started.

        Raises InfrastructureError: look again; nothing is lost.
        """
        for row in self._triggers.entries(limit=MOST_TRIGGERS, kind="file"):
            try:
                yield from self._look_at(row)
            except (OSError, ValueError) as error:
                # No file can have the name of a folder that an earlier version has kept.
                self._say(row.name, f"the folder of the trigger {row.name} cannot be looked at: {error}")

    def _look_at(self, row: TriggerRow) -> Iterator[Fired]:
        source = row.source
        assert isinstance(source, FileSource)
        place = f"{row.name}-{hashlib.sha256(os.fsencode(source.folder)).hexdigest()[:12]}"
        folder = os.path.realpath(source.folder)
        if not is_open_folder(folder, self._hidden):
            self._refuse(row, source)
            return
        found = _files(source, folder)
        for closed in self._hidden:
            above, name = os.path.split(os.path.realpath(closed))
            if above == folder:
                found.pop(name, None)
        if len(found) >= MOST_FILES:
            self._say(
                row.name,
                f"{source.folder} has more than {MOST_FILES} files: the trigger {row.name} sees some",
            )
        seen = self._load(place)
        if seen is None:
            seen = {} if source.existing else found
            self._keep(place, seen)
        before, self._before[place] = self._before.get(place, {}), found
        for name in seen.keys() - found.keys():
            del seen[name]
        newest, kept, unkept = 0.0, self._deps.clock(), False
        try:
            for name, mark in found.items():
                if seen.get(name) == mark or before.get(name) != mark:
                    continue
                fired = self._fire(row, source, name, mark, "created" if name not in seen else "modified")
                seen[name], unkept = mark, True
                newest = max(newest, mark[0] / 1e9)
                yield fired  # first: the start is this process's, and nothing begins it when the file cannot be written
                if (now := self._deps.clock()) - kept >= KEEP_SECONDS:
                    self._keep(place, seen)
                    kept, unkept = now, False
        finally:
            if unkept:
                self._keep(place, seen)
        if newest:
            self._look_for_feeding(row, source, newest)

    def _refuse(self, row: TriggerRow, source: FileSource) -> None:
        message = (
            f"the trigger {row.name} watches {source.folder}, whose names are hidden from playbooks: it holds credentials or data of "
            "the engine, or is a hidden folder of the user; watch a folder of its own"
        )
        if self._logged.get(row.name) != message:
            self._triggers.fired(row.name, None, error=f"folder_hidden: {message}")
        self._say(row.name, message)

    def _look_for_feeding(self, row: TriggerRow, source: FileSource, newest: float) -> None:
        """Report a trigger that starts for file after file written since its last start.

        Who writes files cannot be seen, so nothing is refused: the files may come from another program that writes all the time.
        """
        now = self._deps.clock()
        looks, last = self._fed.get(row.name, (0, 0.0))
        looks = looks + (newest >= last) if now - last <= FEEDING_SECONDS else 0
        self._fed[row.name] = looks, now
        if looks >= FEEDING_LOOKS:
            self._say(
                row.name,
                f"the trigger {row.name} may feed itself: {FEEDING_LOOKS} times in a row it started {row.path} for a file that was "
                f"written after the start before. If {row.path} writes to {source.folder}, let it write to another folder, or watch a "
                "narrower pattern",
            )

    def _fire(self, row: TriggerRow, source: FileSource, name: str, mark: list[int], change: str) -> Fired:
        """Fire a trigger for one file.

        A start that fails is recorded in the trigger's row, and is not tried again until the file changes.
        """
        path = os.path.join(source.folder, name)  # noqa: PTH118 - as the trigger writes it
        event = {
            "path": path,
            "name": name,
            "folder": source.folder,
            "size": mark[1],
            "modified_at": instant(mark[0] / 1e9),
            "change": change,
        }
        at = self._deps.clock()
        try:
            started = fire_trigger(
                row, TriggerEvent(event, f"file:{path}:{mark[0]}:{mark[1]}"), self._triggers, self._deps
            )
        except NoetlError as error:
            if isinstance(error, InfrastructureError) or error.retryable:
                raise
            return Fired(row.name, at, reason=f"{name}: {error}")
        return Fired(row.name, at, started.execution_id, started.event)

    def _load(self, place: str) -> Seen | None:
        if place not in self._seen:
            try:
                self._seen[place] = json.loads((self._folder / f"{place}.json").read_text())
            except FileNotFoundError:
                return None
            except ValueError:
                self._log(f"the record of the files seen by {place} cannot be read: a new one is begun")
                return None
        return self._seen[place]

    def _keep(self, place: str, seen: Seen) -> None:
        """Write what was seen to a file, whole or not at all."""
        self._seen[place] = seen
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = PartFile(self._folder / f"{place}.json")
        try:
            part.write(json.dumps(seen).encode())
            part.replace()
        finally:
            part.drop()

    def _say(self, name: str, line: str) -> None:
        """Log a line about a trigger once, until the line changes."""
        if self._logged.get(name) != line:
            self._logged[name] = line
            self._log(line)


def _files(source: FileSource, folder: str) -> Seen:
    """List plain files whose name matches, without hidden ones: they may be unfinished.

    Raises OSError.
    """
    found: Seen = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not fnmatchcase(entry.name, source.pattern):
                continue
            try:
                if not entry.is_file():
                    continue
                about = entry.stat()
            except FileNotFoundError:
                continue
            if entry.name.isprintable():
                found[entry.name] = [about.st_mtime_ns, about.st_size]
            if len(found) >= MOST_FILES:
                break
    return found
