"""Folders that triggers watch: once per file and change, nothing half-written, nothing twice after a restart."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

import pytest

from noetl.adapters.memory import MemoryCatalog, MemoryExecutionStore
from noetl.domain.automations.triggers import FileSource
from noetl.domain.errors import InfrastructureError
from noetl.kinds.registry import default_registry
from noetl.ports.automations.trigger_store import TriggerRow
from noetl.runtime.local import file_watcher
from noetl.runtime.local.file_watcher import FEEDING_LOOKS, FEEDING_SECONDS, FileWatcher
from noetl.runtime.programs import Programs
from noetl.services.executions.start_playbook import StartDeps
from tests.doubles.trigger_store import MemoryTriggerStore
from tests.parts import repeated

PLAYBOOK = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: it, path: it}\nworkflow:\n  - step: start\n"
)
NOW = 1_800_000_000.0


class Ground:
    def __init__(self, tmp_path) -> None:
        self.folder, self.home = tmp_path / "in", tmp_path / "watched"
        self.folder.mkdir()
        catalog, bits = MemoryCatalog(), itertools.count()
        programs = Programs(catalog, default_registry())
        programs.register(PLAYBOOK, source_name="it.yaml")
        self.store = MemoryExecutionStore(lambda: NOW)
        self.triggers = MemoryTriggerStore(lambda: NOW)
        self.deps = StartDeps(self.store, catalog, programs, "me", lambda: NOW, lambda: next(bits))
        self.log: list[str] = []
        self.restart()

    def restart(self) -> None:
        self.watcher = FileWatcher(self.triggers, self.deps, self.home, self.log.append)

    def watch(self, name="in", path="it", **source) -> None:
        wish = {"folder": str(self.folder), "pattern": "*.csv", **source}
        self.triggers.put(TriggerRow(name, "file", path, FileSource(**wish)))

    def write(self, name, text="a", at=1) -> None:
        (self.folder / name).write_text(text)
        os.utime(self.folder / name, (at, at))

    def look(self, times=2) -> list[tuple[str, str]]:
        """Names and changes of the files for which something was started."""
        fired = [one for _ in range(times) for one in self.watcher.look()]
        events = [one.event.payload["event"] for one in fired if one.event is not None]
        return [(event["name"], event["change"]) for event in events]


@pytest.fixture
def ground(tmp_path):
    return Ground(tmp_path)


def test_new_and_changed_files_start_once_each(ground):
    ground.write("old.csv")
    ground.watch()
    assert ground.look() == []
    ground.write("b.csv")
    ground.write("a.csv", "xyz", at=2)
    for name in (".hidden.csv", "other.txt"):
        ground.write(name)
    (ground.folder / "sub.csv").mkdir()
    assert sorted(ground.look()) == [("a.csv", "created"), ("b.csv", "created")]
    assert ground.look() == []
    ground.write("old.csv", "b", at=3)
    assert ground.look() == [("old.csv", "modified")]
    row = ground.triggers.get("in")
    assert (row.fired, row.failed) == (3, 0)


def test_what_is_still_written_waits(ground):
    ground.watch()
    ground.look()
    for size in range(1, 4):
        ground.write("a.csv", "x" * size)
        assert ground.look(1) == []
    assert ground.look(1) == [("a.csv", "created")]


def test_a_restart_repeats_nothing_and_misses_nothing(ground):
    ground.watch()
    ground.look()
    ground.write("a.csv")
    assert ground.look() == [("a.csv", "created")]
    ground.restart()
    ground.write("b.csv")
    assert ground.look() == [("b.csv", "created")]
    for kept in ground.home.iterdir():
        kept.write_text("not json")
    ground.restart()
    ground.write("c.csv")
    assert ground.look() == [] and "cannot be read" in ground.log[-1]
    assert len(ground.store.executions(limit=9)) == 2


def test_a_start_whose_note_cannot_be_written_is_given_out(ground, monkeypatch):
    """It waits in the store as this process's: no other one would begin it."""
    ground.watch()
    ground.look()
    ground.write("a.csv")

    def full(place, seen) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ground.watcher, "_keep", full)
    assert ground.look() == [("a.csv", "created")]
    assert "cannot be looked at" in ground.log[-1]
    assert ground.look() == []


def test_two_processes_keep_what_they_have_seen_at_the_same_moment(ground, monkeypatch):
    replace = Path.replace
    others = [FileWatcher(ground.triggers, ground.deps, ground.home, ground.log.append)]

    def first_the_other(path, target):
        if others:
            others.pop()._keep("in", {"b.csv": [1, 1]})
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", first_the_other)
    ground.watcher._keep("in", {"a.csv": [1, 1]})
    assert not others and [one.name for one in ground.home.iterdir()] == ["in.json"]
    assert (ground.home / "in.json").read_text() == '{"a.csv": [1, 1]}'


def test_a_start_whose_note_was_lost_is_the_same_execution(ground, monkeypatch):
    ground.watch(existing=True)
    ground.write("a.csv")
    monkeypatch.setattr(ground.watcher, "_keep", lambda place, seen: None)
    assert ground.look() == [("a.csv", "created")]
    ground.restart()
    assert ground.look() == [] and len(ground.store.executions(limit=9)) == 1
    assert ground.triggers.get("in").fired == 1


def test_many_files_at_once_are_kept_together(ground, monkeypatch):
    """Each write holds every file of the folder: one for each file would be quadratic."""
    ground.watch(existing=True)
    for number in range(50):
        ground.write(f"{number}.csv")
    keep, kept = ground.watcher._keep, []
    monkeypatch.setattr(
        ground.watcher, "_keep", lambda place, seen: (kept.append(len(seen)), keep(place, seen))
    )
    assert len(ground.look()) == 50
    assert kept == [0, 50]
    ground.restart()
    assert ground.look() == []


def test_what_started_is_kept_when_the_next_start_fails(ground, monkeypatch):
    ground.watch(existing=True)
    for name in ("a.csv", "b.csv"):
        ground.write(name)
    fire, fired = ground.watcher._fire, []

    def once(row, source, name, mark, change):
        if fired:
            raise InfrastructureError("the database is away", code="database_away")
        fired.append(name)
        return fire(row, source, name, mark, change)

    monkeypatch.setattr(ground.watcher, "_fire", once)
    with pytest.raises(InfrastructureError):
        ground.look()
    ground.restart()
    assert [name for name, _ in ground.look()] == sorted({"a.csv", "b.csv"} - set(fired))


def test_what_cannot_start_is_counted_and_tried_again_when_the_file_changes(ground):
    ground.watch(path="gone")
    ground.look()
    ground.write("a.csv")
    assert ground.look(4) == []
    row = ground.triggers.get("in")
    assert (row.failed, row.fired) == (1, 0) and "playbook_not_found" in row.last_error
    ground.watch()
    ground.write("a.csv", "b", at=9)
    assert ground.look() == [("a.csv", "modified")]


def test_a_database_that_is_away_loses_nothing(ground, monkeypatch):
    ground.watch()
    ground.look()
    ground.write("a.csv")

    def away(*args, **kwargs):
        raise InfrastructureError("away")

    monkeypatch.setattr(ground.store, "create", away)
    with pytest.raises(InfrastructureError):
        ground.look()
    monkeypatch.undo()
    assert ground.look(1) == [("a.csv", "created")]


def test_a_folder_that_is_gone_is_said_once_and_watched_when_it_is_back(ground):
    ground.watch()
    ground.look()
    ground.folder.rename(ground.folder.with_name("away"))
    assert ground.look(3) == []
    assert sum("cannot be looked at" in line for line in ground.log) == 1
    ground.folder.with_name("away").rename(ground.folder)
    ground.write("a.csv")
    assert ground.look() == [("a.csv", "created")]


@pytest.mark.parametrize("folder", ["/x\ud800y", "/x\0y", "/" + "k" * 10_000])
def test_a_folder_that_no_file_system_can_have_keeps_no_other_from_being_watched(ground, folder):
    """A server before this one kept whatever folder a client named."""
    ground.watch("bad", folder=folder)
    ground.watch("in")
    ground.look()
    ground.write("a.csv")
    assert ground.look() == [("a.csv", "created")]
    assert sum("trigger bad cannot be looked at" in line for line in ground.log) == 1


def test_folders_that_tasks_never_see_show_no_names_to_a_trigger(ground, tmp_path, monkeypatch):
    """Credentials and the engine's home, by any name, and hidden folders of the user."""
    user = tmp_path / "user"
    secret, keys, link = tmp_path / "engine", user / ".ssh", tmp_path / "link"
    for folder in (secret / "work", keys, user / "in"):
        folder.mkdir(parents=True)
    link.symlink_to(secret)
    monkeypatch.setenv("HOME", str(user))
    ground.watcher = FileWatcher(
        ground.triggers,
        ground.deps,
        ground.home,
        ground.log.append,
        (str(secret), str(ground.folder / "k.csv")),
    )
    for place, folder in enumerate((secret, secret / "work", keys, link, user / "in", ground.folder)):
        (folder / "k.csv").write_text("x")
        ground.watch(f"t{place}", folder=str(folder), existing=True)
    assert ground.look() == [("k.csv", "created")], "of the folder that is open; the file there is not hidden"
    rows = [ground.triggers.get(f"t{place}") for place in range(6)]
    assert [row.fired for row in rows] == [0, 0, 0, 0, 1, 0]
    assert [row.failed for row in rows] == [1, 1, 1, 1, 0, 0], "it is said once"
    assert "folder_hidden" in rows[0].last_error and any(
        "hidden from playbooks" in line for line in ground.log
    )


LOOKS = repeated(gate=20, full=FEEDING_LOOKS)
"""After how many looks a loop is reported: with each there is one more file to look at."""


def feed(ground, looks, *, now, step, written):
    """One new file before each start; ``written``: seconds from the last start to its time."""
    for number in range(looks):
        ground.write(f"{now[0]:.0f}-{number}.csv", at=now[0] + written)
        now[0] += step
        assert len(ground.look()) == 1


def test_a_trigger_that_feeds_itself_is_reported(ground, monkeypatch):
    monkeypatch.setattr(file_watcher, "FEEDING_LOOKS", LOOKS)
    now = [NOW]
    ground.deps = StartDeps(
        ground.store, ground.deps.catalog, ground.deps.programs, "me", lambda: now[0], ground.deps.random_bits
    )
    ground.restart()
    ground.watch()
    ground.look()
    feed(ground, 2 * LOOKS, now=now, step=2 * FEEDING_SECONDS, written=1)
    feed(ground, 2 * LOOKS, now=now, step=1, written=-1e6)
    assert ground.log == [], "files that come seldom, and files that were written before"
    feed(ground, 2 * LOOKS, now=now, step=1, written=1)
    assert len(ground.log) == 1 and "may feed itself" in ground.log[0] and str(ground.folder) in ground.log[0]
