"""Rows of ``transient``: written with commits and with posted events, read one by one (counted) or all at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noetl.domain.events import ContextPatched
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.variables import VariableWrite
from noetl.ports.variables import Variables
from tests.contract.builders import EID

ODD = "nul \x00 and \ud800"


@pytest.fixture
def variables(harness: Any, request: pytest.FixtureRequest) -> Iterator[Variables]:
    if harness.kind == "memory":
        yield harness.store
        return
    from noetl.adapters.postgres.variables import PostgresVariables

    found = PostgresVariables(harness.store.database)
    yield found
    found.close()


def shown(variables: Variables) -> list[tuple[Any, ...]]:
    found = variables.variables(EID)
    return [(one.name, one.value, one.type, one.source_step, one.access_count) for one in found]


def test_a_commit_writes_rows_and_takes_them_away(harness, make, variables):
    writes = (
        VariableWrite("plain", {"b": [1], "a": None}, "step_result", "fetch"),
        VariableWrite(ODD, 3.5, "iterator_state", "each"),
        VariableWrite("nothing", None),
        VariableWrite("twice", 1, "computed"),
        VariableWrite("twice", 2, "computed"),
    )
    harness.store.commit([make.change(variables=writes)])
    assert sorted(shown(variables)) == sorted(
        [
            (ODD, 3.5, "iterator_state", "each", 0),
            ("nothing", None, "user_defined", None, 0),
            ("plain", {"b": [1], "a": None}, "step_result", "fetch", 0),
            ("twice", 2, "computed", None, 0),
        ]
    )
    gone = (VariableWrite("twice", deleted=True), VariableWrite("never", deleted=True))
    harness.store.commit([make.change(1, variables=gone)])
    assert "twice" not in {one.name for one in variables.variables(EID)}


def test_single_reads_count_and_writing_keeps_count_and_age(harness, make, variables):
    harness.store.commit([make.change(variables=(VariableWrite("n", 1),))])
    first = variables.variables(EID)[0]
    harness.sleep(0.02)
    assert [variables.read_variable(EID, "n").access_count for _ in range(2)] == [1, 2]
    read = variables.variables(EID)[0]
    assert read.access_count == 2 and read.accessed_at > first.accessed_at
    harness.sleep(0.02)
    harness.store.commit([make.change(1, variables=(VariableWrite("n", 2),))])
    again = variables.variables(EID)[0]
    assert (again.value, again.access_count, again.created_at) == (2, 2, first.created_at)
    assert again.accessed_at > read.accessed_at
    assert variables.read_variable(EID, "m") is None
    assert list(variables.variables(EID + 1)) == []


def test_a_posted_event_writes_its_variables_once_and_only_when_it_is_taken(harness, make, variables):
    store = harness.store

    def post(number: str, value: int, execution_id: int = EID) -> bool:
        event = ContextPatched(execution_id, number, "prog", [Patch("vars", "n", value)])
        return store.post(event, "me", [VariableWrite("n", value)]).posted

    assert not post("p1", 1, EID + 1) and list(variables.variables(EID + 1)) == []
    store.commit([make.change()])
    assert post("p1", 1) and shown(variables) == [("n", 1, "user_defined", None, 0)]
    assert not post("p1", 2) and variables.variables(EID)[0].value == 1, "the same event again"
    store.commit([make.change(1, events=(make.row("p1"),), handled=("p1",))])
    assert post("p2", 3)
    assert not post("p1", 1) and variables.variables(EID)[0].value == 3, "an event that was applied already"
    store.commit([make.change(2, end=True, status="completed")])
    assert not post("p3", 4) and variables.variables(EID)[0].value == 3, "an execution that has ended"
