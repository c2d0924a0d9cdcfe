"""Folding single facts."""

from __future__ import annotations

import pytest

from noetl.domain.facts.facts import CallDone
from noetl.domain.state import LEGAL_PHASE, ExecutionState, Token
from noetl.engine.folds.apply import evolve


@pytest.mark.parametrize(
    ("boundary", "after"), [("step.enter", "entered"), ("loop.done", "called"), ("step.exit", "called")]
)
def test_after_tasks_of_an_entry_a_run_stands_where_its_boundary_is(boundary: str, after: str) -> None:
    token = Token(1, "fetch", "case", command="1.case.0", rule=0, event=boundary)
    state = ExecutionState(tokens={1: token})
    evolve(state, {}, CallDone(1, "fetch", stage="case"))
    assert (token.phase, token.command) == (after, None)
    assert {"body", "loop"} & LEGAL_PHASE[after] == ({"body", "loop"} if boundary == "step.enter" else set())
