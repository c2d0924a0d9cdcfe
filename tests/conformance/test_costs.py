"""What `noetl cost` adds up from history, beside what the engine counted for the budget, and what tools were called."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import Any

import pytest

from noetl.domain.errors import NotFoundError
from noetl.domain.kinds import CONTROL_KINDS
from noetl.services.queries.read_execution import read_state
from noetl.services.queries.step_costs import read_costs
from noetl.testing.memory import real_worker
from tests.conformance.cases import play
from tests.conformance.memory import CASES, ExplainedBackend, in_memory
from tests.parts import over

BOUNDED = [name for name in CASES if name.startswith("budget/")]
CALLING = [
    name
    for name in CASES
    if name.split("/")[0] in ("cache", "compensation", "concurrent", "guards", "nested", "polls")
]
OTHER_NUMBERS = {
    "compensation/one-fails": 1,  # the template of a call fails: it counts
    "compensation/only-what-was-done": -1,  # a call without an outcome: its run was withdrawn
    "guards/loop-sink": 1,  # an entry of `case` with nothing but a sink is one call
    "guards/routing-sink": 1,
    "guards/tool-sink": 1,
    "polls/cancelled": -2,
    "polls/step-timeout": -1,
}
"""Case → calls that are added up above those that tools got."""


def no_program(program: str):
    raise NotFoundError("the programs of a case are its own")


@pytest.mark.parametrize("name", BOUNDED)
def test_history_tells_of_the_calls_that_a_budget_counted(name: str) -> None:
    """A redrive begins with a new budget of calls; history has the calls of all rounds."""
    store = in_memory(name)[0].store
    for info in store.executions(limit=100):
        state = read_state(info)[0]
        costs = read_costs(store, no_program, info.execution_id)
        assert costs.complete
        if not state.rounds:
            assert costs.calls == state.calls > 0
        else:
            assert costs.calls > state.calls


@over("name", CALLING)
def test_history_tells_of_the_calls_that_tools_got(name: str) -> None:
    """Sinks are no calls, nor are questions for work in another system that was begun."""
    got: Counter[int] = Counter()
    cast: list[Any] = []

    @contextmanager
    def counting(tools, backend, programs):
        run = tools.run

        def counted(kind: str, params, context):
            sink = context.task.endswith("_sink")
            got[context.execution_id] += kind not in CONTROL_KINDS and not sink and context.pending is None
            return run(kind, params, context)

        tools.run = counted
        cast.append(programs)
        with real_worker(tools, backend, programs) as worker:
            yield worker

    backend = ExplainedBackend()
    play(CASES[name], backend, counting)
    found = {
        info.execution_id: read_costs(backend.store, cast[0], info.execution_id)
        for info in backend.store.executions(limit=100)
    }
    assert all(one.complete for one in found.values())
    more = sum(one.calls for one in found.values()) - got.total()
    assert more == OTHER_NUMBERS.get(name, 0)
