"""Costs by step, of histories that no run of a test leaves: rows of other shapes, turns without an end of their own, many items."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.adapters.memory import MemoryExecutionStore
from noetl.domain import codec
from noetl.domain.errors import NotFoundError, OverloadedError
from noetl.domain.long_work import asking
from noetl.ports.executions.execution_store import StoredEvent
from noetl.services.queries.step_costs import Costs, read_costs
from tests.contract.builders import EID, Make

NUMBERS = st.sampled_from([None, True, 0, -1, 3, 2.5, 1e308, 10**4000, "3", [1], {"a": 1}, "\ud800"])
CALL = st.fixed_dictionaries(
    {}, optional={"name": st.sampled_from(["task.done", "task.cached", 7, ["task.done"]]), "payload": NUMBERS}
)
NAMES = [
    "ctx.patched",
    "step.enter",
    "loop.started",
    "command.issued",
    "call.done",
    "retry.scheduled",
    [],
    {},
]
FACT = st.fixed_dictionaries(
    {"name": st.sampled_from(NAMES), "step": st.just("ask"), "run": st.sampled_from([3, -1, True])},
    optional={
        "stage": st.sampled_from(["body", "case", ["body"]]),
        "rule": NUMBERS,
        "pool": NUMBERS,
        "total": NUMBERS,
        "meta": st.dictionaries(st.sampled_from(["calls", "attempts", "duration_ms", "cached"]), NUMBERS) | NUMBERS,
        "trace": st.lists(CALL | NUMBERS) | NUMBERS,
        "patches": st.lists(
            st.fixed_dictionaries({"scope": st.just("ctx"), "name": st.just("cost"), "op": st.just("add"), "value": NUMBERS})
            | NUMBERS
        )
        | NUMBERS,
    },
)  # fmt: skip


def row(*facts: Any, seq: int = 1) -> StoredEvent:
    return StoredEvent(f"x:{seq}", 0, seq, "x", 0.0, codec.encode(list(facts)))


def fact(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "run": 1, "step": "ask", **more}


def call(ms: float, kind: str = "http") -> dict[str, Any]:
    return {"name": "task.done", "entity": "ask", "payload": {"kind": kind, "duration_ms": ms}}


@given(st.lists(FACT, max_size=4))
def test_rows_of_any_shape_are_added_up_or_said(facts: list[Any]) -> None:
    costs = Costs()
    costs.add(row(*facts))
    found = costs.view(1, complete=True)
    assert found.calls >= 0 and found.tool_ms >= 0
    assert codec.decode(codec.encode(found))["cost"] == found.cost


def test_what_ends_a_run_without_a_trace_counts_the_calls_of_its_turns_before_again() -> None:
    costs = Costs()
    costs.add(row(fact("step.enter"), fact("command.issued", pool="io")))
    costs.add(
        row(
            fact("retry.scheduled", turn=1, trace=[call(4), call(2)]),
            fact("command.issued", pool="io", turn=1),
        )
    )
    costs.add(row(fact("call.error", meta={"attempts": 3, "duration_ms": 8})))
    costs.add(row(fact("command.issued", pool="io", stage="case", rule=0)))
    costs.add(row(fact("call.done", stage="case", meta={"duration_ms": 16})))
    found = costs.view(1, complete=True)
    assert (found.calls, found.tool_ms) == (2 + 1 + 1, 6 + 8 + 16)


def test_a_nested_loop_is_no_call_beside_those_of_its_tasks() -> None:
    costs = Costs()
    costs.add(row(fact("call.done", trace=[call(1), call(2), call(0, "iterator")])))
    assert costs.view(1, complete=True).calls == 2


def test_a_sum_beyond_all_numbers_is_not_complete() -> None:
    costs = Costs()
    patch = {"scope": "ctx", "name": "cost", "op": "add", "value": 1e308}
    costs.add(row(fact("ctx.patched", patches=[patch, patch])))
    found = costs.view(1, complete=True)
    assert (found.cost, found.complete) == (1e308, False)


# --- families ---


def no_program(program: str) -> Any:
    raise NotFoundError("there is none")


@pytest.fixture
def store() -> MemoryExecutionStore:
    """An execution with a row that cannot be read and two items, and two children with two items each."""
    made = MemoryExecutionStore(lambda: 1_800_000_000.0)
    loop = fact("loop.started", round=1, total=2)
    for execution_id in (EID, EID + 1, EID + 2):
        make = Make()
        rows = [make.row("loop", seq=1, facts=codec.encode([loop]))]
        if execution_id == EID:
            rows.append(make.row("bad", seq=2, facts=b'{"not": "a list"}'))
        rows += [
            make.row(f"item:1:1:{place}", seq=place, lane=1, type="call.done", facts=b"{}")
            for place in range(2)
        ]
        parent = None if execution_id == EID else EID
        created = make.created(parent_execution_id=parent)
        made.commit([make.change(execution_id=execution_id, events=tuple(rows), created=created)])
    return made


def test_a_row_that_cannot_be_read_does_not_leave_out_the_family(store) -> None:
    found = read_costs(store, no_program, EID, family=True)
    assert (found.calls, found.complete) == (2, False)
    assert found.family is not None and found.family.calls == 6
    assert [one.executions for one in found.family.playbooks] == [2]


def test_items_of_a_family_have_one_bound(store, monkeypatch) -> None:
    monkeypatch.setattr("noetl.services.queries.step_costs.MOST_ITEMS", 4)
    found = read_costs(store, no_program, EID, family=True)
    assert found.family is not None and (found.family.calls, found.complete) == (4, False)


def test_many_items_are_long_work(store, monkeypatch) -> None:
    def refuse() -> None:
        raise OverloadedError("others compute")

    with asking(refuse):
        assert read_costs(store, no_program, EID).calls == 2
        monkeypatch.setattr("noetl.services.queries.step_costs.LONG", 2)
        with pytest.raises(OverloadedError):
            read_costs(store, no_program, EID)
