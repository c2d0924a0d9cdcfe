"""What two processes died of begins with nothing beside it, and nobody waits for that for ever."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from noetl.domain.commands import Command
from noetl.domain.workers.lost_owners import ALONE_SECONDS
from noetl.runtime.local import process
from noetl.runtime.local.lost_commands import SharedRunRule
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from tests.waiting import PATIENCE, wait_until

SOUND = Command(7, "1", 1, "load", "p", "io")
SUSPECT = msgspec.structs.replace(SOUND, command_id="2", lost=2)


class Guest:
    """A command in a thread of its own, which runs until it is told to end."""

    def __init__(self, company: SharedRunRule, command: Command) -> None:
        self.may_run: bool | None = None
        self._company, self._command = company, command
        self._inside, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._company.beside(self._command) as may_run:
            self.may_run = may_run
            self._inside.set()
            self._end.wait(PATIENCE)

    @property
    def runs(self) -> bool:
        return self._inside.is_set()

    def begins(self) -> bool:
        return self._inside.wait(PATIENCE)

    def ends(self) -> None:
        self._end.set()
        self._thread.join(PATIENCE)


def waiting(company: SharedRunRule) -> int:
    return len(company._changed._waiters)  # type: ignore[attr-defined]


def test_a_suspect_runs_alone_and_others_go_on_afterwards():
    now = [0.0]
    company = SharedRunRule(lambda: now[0])
    first, second = Guest(company, SOUND), Guest(company, SOUND)
    assert first.begins() and second.begins(), "sound ones run beside each other"
    suspect = Guest(company, SUSPECT)
    wait_until(lambda: waiting(company) == 1, "the suspect waits")
    later = Guest(company, SOUND)
    wait_until(lambda: waiting(company) == 2, "what comes later waits as well")
    first.ends()
    assert not suspect.runs
    second.ends()
    assert suspect.begins() and not later.runs
    suspect.ends()
    assert later.begins() and later.may_run
    later.ends()


@pytest.mark.parametrize(("inside", "comes"), [(SOUND, SUSPECT), (SUSPECT, SOUND)])
def test_nobody_waits_for_ever(inside, comes):
    now = [0.0]
    company = SharedRunRule(lambda: now[0])
    long = Guest(company, inside)
    assert long.begins()
    late = Guest(company, comes)
    wait_until(lambda: waiting(company) == 1, "it waits")
    now[0] = ALONE_SECONDS + 1
    with company._changed:
        company._changed.notify_all()
    assert late.begins() and late.may_run
    late.ends()
    long.ends()


def test_what_waits_when_the_process_ends_does_not_run():
    company = SharedRunRule(lambda: 0.0)
    long = Guest(company, SUSPECT)
    assert long.begins()
    late = Guest(company, SOUND)
    wait_until(lambda: waiting(company) == 1, "it waits")
    company.close()
    assert late.begins() and late.may_run is False
    late.ends()
    long.ends()


def test_commands_of_a_process_keep_company_by_these_rules(tmp_path, monkeypatch):
    """A sound command that is given to a thread beside a suspect is not begun, so it is not on record when the process dies."""
    runtime: Any = LocalRuntime(Settings(home=tmp_path))
    runtime.opened = SimpleNamespace(worker=None)
    runtime.left_behind = SimpleNamespace(remove=lambda command: None)
    begun: list[str] = []
    end = threading.Event()

    def attempt(command: Command, *_: object) -> None:
        begun.append(command.command_id)
        if command.lost:
            end.wait(PATIENCE)

    monkeypatch.setattr(process, "attempt", attempt)
    monkeypatch.setattr(runtime, "_revoked", lambda *_: False)
    threads = [threading.Thread(target=runtime._run, args=(one,), daemon=True) for one in (SUSPECT, SOUND)]
    threads[0].start()
    wait_until(lambda: begun == ["2"], "the suspect begins")
    threads[1].start()
    wait_until(lambda: waiting(runtime._company) == 1, "the sound one waits")
    assert begun == ["2"]
    end.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert begun == ["2", "1"]
