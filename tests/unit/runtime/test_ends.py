"""Waiting for the ends of executions, of which other processes bring some about."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

from noetl.ports.answers import ExecutionFilter
from noetl.ports.execution_store import ExecutionStore
from noetl.runtime import ends
from noetl.runtime.ends import Ends, EndWaiter


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
    monkeypatch.setattr(ends, "LOOK_SECONDS", 0.0)
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
    monkeypatch.setattr(ends, "LOOK_SECONDS", 0.0)
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
