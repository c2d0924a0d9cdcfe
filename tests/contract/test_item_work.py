"""Work of the items of loops, added up by step run."""

from __future__ import annotations

import pytest

from noetl.domain import codec, ids
from noetl.domain.outcomes.work import work_of
from noetl.ports.executions.execution_store import ItemWork
from tests.contract.builders import EID


def traced(kind: str, ms: object, name: str = "task.done") -> dict:
    return {"name": name, "entity": "t", "payload": {"kind": kind, "duration_ms": ms}}


OUTCOMES = [
    {"status": "ok"},
    {"status": "ok", "meta": {"duration_ms": 12.5}},
    {"status": "error", "meta": {"attempts": 3, "duration_ms": 1e-05}},
    {"status": "ok", "meta": {"attempts": 3, "calls": 2, "duration_ms": 7}},
    {"status": "ok", "meta": {"cached": {"execution_id": "1"}}, "trace": [{"name": "task.cached", "entity": "t"}]},
    {"status": "ok", "meta": {"cached": {"execution_id": "1"}}},
    {"status": "ok", "meta": {"attempts": 9, "duration_ms": 99}, "trace": [traced("http", 3), traced("noop", 4), traced("python", 5.25)]},
    {"status": "ok", "meta": {"attempts": 2}, "trace": [traced("http", 3), traced("http", 4), traced("iterator", 9)]},
    {"status": "ok", "meta": {"duration_ms": 6}, "trace": [{"name": "case.evaluated", "entity": "t", "payload": {"rule": 1}}]},
    {"status": "ok", "result": "\0 \ud800 task.done", "meta": {"duration_ms": 2, "note": "\0"}, "trace": [traced("\0", 1)]},
    {"status": "ok", "meta": {"duration_ms": "long", "attempts": "many"}, "trace": {"name": "task.done"}},
    {"status": "ok", "meta": [1], "trace": [traced("http", None), traced("http", [1]), {"name": 7}, "task.done", None]},
    {"status": "ok", "meta": {"calls": 10**400, "attempts": 2, "duration_ms": 10**400}},
    {"status": "ok", "meta": {"calls": -3, "attempts": True, "duration_ms": -4}},
    {"status": "ok", "meta": {"calls": None, "attempts": 4, "duration_ms": True}},
    {"status": "ok", "meta": {"calls": 0, "attempts": 2, "duration_ms": 30}},
    {"status": "ok", "trace": [traced("http", 1e300), traced("http", 10**400), traced(["noop"], 3), {"name": ["task.done"]}]},
    {"status": "ok", "meta": "much", "trace": [{"name": "task.done", "payload": [1]}]},
    [{"trace": [traced("http", 3)]}], "\0 text", 10**400, None,
]  # fmt: skip


@pytest.fixture
def filled(store, make):
    """An execution with these outcomes in the lane of run 3, and two more in that of run 8."""
    rows = [
        make.row(ids.item_event(3, 0, place), seq=place, lane=3, type="call.done", facts=codec.encode(one))
        for place, one in enumerate(OUTCOMES)
    ]
    rows += [
        make.row(ids.item_event(8, 0, place), seq=place, lane=8, type="call.done", facts=codec.encode(OUTCOMES[1]))
        for place in range(2)
    ]  # fmt: skip
    store.commit([make.change(events=(make.row(), *rows))])
    return store


def test_calls_and_their_time_are_added_up_as_the_domain_does(filled) -> None:
    work = [work_of(one, final=True) for one in OUTCOMES]
    first, second = filled.item_work(EID, 100)
    assert (first.run, first.rows, first.items) == (3, len(OUTCOMES), len(OUTCOMES))
    assert first.calls == sum(calls for calls, _ in work)
    assert first.ms == pytest.approx(sum(ms for _, ms in work))
    assert second == ItemWork(8, 2, 2, 2, 25.0)


def test_no_more_items_are_added_up_than_allowed(filled) -> None:
    assert [(one.run, one.items) for one in filled.item_work(EID, len(OUTCOMES) + 1)] == [
        (3, len(OUTCOMES)),
        (8, 1),
    ]
    assert [(one.run, one.items) for one in filled.item_work(EID, 2)] == [(3, 2)]


def test_a_turn_after_which_an_item_continues_has_no_call_but_those_of_its_trace(store, make) -> None:
    rows = [
        make.row(
            "item:3:0:0:0",
            seq=0,
            lane=3,
            type="retry.scheduled",
            facts=codec.encode({"trace": [traced("http", 4)]}),
        ),
        make.row(
            "item:3:0:0:1", seq=0, lane=3, type="wait.started", facts=codec.encode({"meta": {"attempts": 7}})
        ),
        make.row(
            "item:3:0:0", seq=0, lane=3, type="call.done", facts=codec.encode({"trace": [traced("http", 5)]})
        ),
    ]
    store.commit([make.change(events=(make.row(), *rows))])
    assert list(store.item_work(EID, 100)) == [ItemWork(3, 3, 1, 2, 9.0)]


def test_what_ends_an_item_without_a_trace_counts_the_calls_of_its_turns_before_again(store, make) -> None:
    """A worker that was lost, or a loop that closed, ends an item after turns that told of their calls."""
    outcomes = {
        (0, ":t0"): {"trace": [traced("http", 4), traced("http", 2)]},
        (0, ":t1"): {"trace": [traced("http", 1)]},
        (0, ""): {"meta": {"attempts": 3, "duration_ms": 1}},
        (1, ":t0"): {"trace": [traced("http", 4)]},
        (1, ""): {},
        (2, ":t0"): {"trace": [traced("wait", 4)]},
        (2, ""): {"meta": {"attempts": 2, "calls": 1, "duration_ms": 8}},
        (3, ":t0"): {"trace": [traced("http", 4)]},
        (3, ""): {"meta": {"attempts": 3, "duration_ms": 16}},
    }
    rows = [
        make.row(f"item:3:1:{place}{turn}", seq=place, lane=3, type="call.done", facts=codec.encode(one))
        for (place, turn), one in outcomes.items()
    ]
    store.commit([make.change(events=(make.row(), *rows))])
    assert list(store.item_work(EID, 100)) == [ItemWork(3, 9, 4, 3 + 1 + 1 + 3, 7 + 4 + 8 + 20)]


def test_an_execution_without_loops_has_no_work_of_items(store, make) -> None:
    store.commit([make.change()])
    assert list(store.item_work(EID, 100)) == []
