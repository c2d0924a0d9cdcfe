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
