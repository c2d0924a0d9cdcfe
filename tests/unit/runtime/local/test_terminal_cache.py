"""Waiting for the ends of executions, of which other processes bring some about."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

from noetl.ports.executions.answers import ExecutionFilter
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.runtime.local import terminal_cache
from noetl.runtime.local.terminal_cache import Ends, EndWaiter
from tests.waiting import PATIENCE


class Others:
    """A store whose executions other processes end: all but the first at the first look, the first at the second."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def executions(self, *, limit: int, wanted: ExecutionFilter) -> list[Any]:
        assert wanted.ids is not None and limit == len(wanted.ids)
        first = not self.asked
        self.asked.append(len(wanted.ids))
        return [
            SimpleNamespace(execution_id=one, status="completed") for one in wanted.ids if one or not first
        ]


def test_a_look_asks_once_for_all_that_are_open(monkeypatch):
    monkeypatch.setattr(terminal_cache, "LOOK_SECONDS", 0.0)
    store, known = Others(), Ends()
    known.note([(7, "failed")])
    waiter = EndWaiter(
        cast(ExecutionStore, store), known, threading.Condition(), quiet=lambda: False, log=print
    )
    waiter.wait(range(900), None, None, 0.01)
    assert store.asked == [899, 1]
    assert known == {**dict.fromkeys(range(900), "completed"), 7: "failed"}


def test_an_end_that_was_read_before_a_redrive_is_not_remembered(monkeypatch):
    """This process got commands of the execution while it looked: what is remembered as ended is given up, and they would not run."""
    monkeypatch.setattr(terminal_cache, "LOOK_SECONDS", 0.0)
    known, changed = Ends(), threading.Condition()

    class Redriven(Others):
        def executions(self, *, limit: int, wanted: ExecutionFilter) -> list[Any]:
            found = super().executions(limit=limit, wanted=wanted)
            if len(self.asked) == 1:
                with changed:
                    known.revive(1)
            elif len(self.asked) == 2:
                found = [SimpleNamespace(execution_id=1, status="failed")]
            return found

    store = Redriven()
    waiter = EndWaiter(cast(ExecutionStore, store), known, changed, quiet=lambda: False, log=print)
    waiter.wait([1, 2], None, None, 0.01)
    assert store.asked == [2, 1], "the second is remembered, and the first is looked at again"
    assert known == {1: "failed", 2: "completed"}


def test_who_waits_for_an_end_sleeps_through_everything_else():
    """Each step of each execution changes something; a wake-up for each costs a tenth of a step."""
    known, changed, ticks = Ends(), threading.Condition(), threading.Semaphore(0)
    seen: list[int] = []

    def steps() -> None:
        ticks.acquire(timeout=PATIENCE)
        for _ in range(100):
            with changed:
                changed.notify_all()
            time.sleep(0.001)
        with changed:
            known.note([(1, "completed"), (2, "completed")])

    def tick() -> None:
        seen.append(len(known))
        ticks.release()

    waiter = EndWaiter(cast(ExecutionStore, Others()), known, changed, quiet=lambda: False, log=print)
    worker = threading.Thread(target=steps)
    worker.start()
    waiter.wait((1, 2), tick, PATIENCE, PATIENCE)
    worker.join()
    assert seen == [0]


def test_an_end_that_is_forgotten_again_is_waited_for():
    """An execution that was redriven while others were waited for has not ended."""
    known, changed = Ends(), threading.Condition()
    known.note([(1, "failed")])
    waiter = EndWaiter(cast(ExecutionStore, Others()), known, changed, quiet=lambda: False, log=print)
    left: list[int] = []
    assert waiter._open_one((1, 2), left) == 2
    del known[1]
    known.note([(2, "completed")])
    assert waiter._open_one((1, 2), left) == 1
    known.note([(1, "completed")])
    assert waiter._open_one((1, 2), left) is None
