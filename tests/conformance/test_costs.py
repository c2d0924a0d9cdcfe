"""What `noetl cost` adds up from history, beside what the engine counted for the budget of the same execution."""

from __future__ import annotations

import pytest

from noetl.domain.errors import NotFoundError
from noetl.services.queries.read_execution import read_state
from noetl.services.queries.step_costs import read_costs
from tests.conformance.memory import CASES, in_memory

BOUNDED = [name for name in CASES if name.startswith("budget/")]


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
