"""What a batch asks of the store does not grow with the events in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from noetl.domain import ids
from noetl.domain.events import Parent, Start
from noetl.services.orchestrator.engine_deps import BatchEffects
from noetl.services.orchestrator.handle_events import handle_events
from tests.unit.services.engine_bench import STEP, Bench


class Counted:
    """Pass calls on to ``whole``, and count them by name."""

    def __init__(self, whole: Any, calls: Counter[str]) -> None:
        self._whole = whole
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        def called(*values: Any, **named: Any) -> Any:
            self._calls[name] += 1
            return getattr(self._whole, name)(*values, **named)

        return called


def calls_to_begin(children: int) -> Counter[str]:
    """What is asked when so many sub-executions of one loop begin in one batch."""
    bench = Bench(STEP)
    parent = bench.start()
    bench.handle(bench.put(parent))
    calls: Counter[str] = Counter()
    deps = replace(
        bench.deps.engine,
        store=Counted(bench.store, calls),
        resolve=Counted(bench.programs, calls).resolve,
        owner="me",
    )
    starts = [
        Start(
            bench.start().execution_id + 1 + place,
            ids.start_event(),
            program="",
            path="it",
            parent=Parent(parent.execution_id, f"1.r0.i{place}", 1, 1, 0, place),
        )
        for place in range(children)
    ]
    with bench.store.tables() as tables:
        tables.post(starts, parent.execution_id, "me")
    handled = handle_events(starts, deps, BatchEffects())
    assert len({command.execution_id for command in handled.commands}) == children
    return calls


def test_sub_executions_of_a_loop_that_begin_together_are_looked_up_together() -> None:
    few, many = calls_to_begin(2), calls_to_begin(60)
    assert many == few
    assert (few["resolve"], few["info"], few["commit"]) == (1, 1, 1)
