"""Calls and times that reports state; tests/contract/test_item_work.py has the hostile shapes."""

from __future__ import annotations

from noetl.domain.outcomes.work import calls_made, work_of

DONE = {"name": "task.done", "entity": "fetch", "payload": {"kind": "http", "duration_ms": 4.5}}


def test_a_report_without_a_trace_is_one_call_that_meta_tells_of() -> None:
    assert work_of({"meta": {"duration_ms": 12}}, final=True) == (1, 12.0)
    assert work_of({"meta": {"attempts": 3, "duration_ms": 12}}, final=True) == (3, 12.0)
    assert work_of({}, final=True) == (1, 0.0)


def test_a_trace_tells_of_each_call_of_a_tool() -> None:
    waited = {"name": "task.done", "entity": "rest", "payload": {"kind": "wait", "duration_ms": 9}}
    report = {"meta": {"attempts": 5, "duration_ms": 4.5}, "trace": [DONE, waited, DONE]}
    assert work_of(report, final=True) == (2, 9.0)
    assert work_of(report, final=False) == (2, 9.0)


def test_a_suspended_run_has_made_no_call_but_those_of_its_trace() -> None:
    assert work_of({"trace": []}, final=False) == (0, 0.0)


def test_stored_results_are_no_calls() -> None:
    assert work_of({"trace": [{"name": "task.cached", "entity": "fetch"}]}, final=True) == (0, 0.0)
    assert calls_made({"cached": {}}) == 0 and calls_made({"attempts": 3, "calls": 1}) == 1


def test_calls_of_turns_before_are_not_counted_again() -> None:
    assert work_of({"meta": {"attempts": 3, "duration_ms": 4}}, final=True, before=3) == (0, 0.0)
    assert work_of({"meta": {"attempts": 3, "duration_ms": 4}}, final=True, before=1) == (2, 4.0)
    assert work_of({"meta": {"attempts": 3}, "trace": [DONE]}, final=True, before=2) == (1, 4.5)


def test_numbers_that_no_report_can_have_are_not_taken() -> None:
    assert calls_made({"calls": -1}) == calls_made({"calls": True}) == calls_made({"attempts": 10**4000}) == 1
    assert work_of({"meta": {"duration_ms": 10**4000}}, final=True) == (1, 0.0)
