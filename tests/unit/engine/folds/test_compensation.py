"""The stack of runs to undo, and the report of what came of undoing them, folded fact by fact."""

from __future__ import annotations

import pytest

from noetl.domain.facts import facts as f
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.state import ExecutionState, Slots, encode_state
from noetl.engine.folds.apply import evolve
from noetl.engine.folds.compensation import LONGEST, MOST_REPORTED, REPORT

BROKEN = ErrorInfo(message="no" * 1000, kind="auth", code="refused")


def fold(*facts: f.Fact) -> tuple[ExecutionState, Slots]:
    state, slots = ExecutionState(), Slots()
    for fact in facts:
        evolve(state, slots, fact)
    return state, slots


def run_of(number: int, step: str = "take") -> list[f.Fact]:
    """A run that ends well and is registered, with a result of its own."""
    return [
        f.TokenAdded(f.Arrival(number, step, args={"n": number})),
        f.StepEntered(number, step, args={"n": number}),
        f.CommandIssued(number, step, str(number), "io"),
        f.CallDone(number, step, result=number * 10),
        f.StepExited(number, step, compensable=True),
        f.NextEvaluated(number, step),
    ]


def undo_of(number: int, error: ErrorInfo | None = None, step: str = "take") -> list[f.Fact]:
    issued = f.CommandIssued(number, step, f"{number}.compensate", "io", "compensate")
    if error is None:
        return [issued, f.CallDone(number, step, stage="compensate", result="undone")]
    return [issued, f.CallFailed(number, step, error, stage="compensate")]


def all_runs(count: int) -> list[f.Fact]:
    return [fact for number in range(1, count + 1) for fact in run_of(number)]


def test_every_run_keeps_what_it_gave_and_got() -> None:
    state, slots = fold(*all_runs(2))

    assert state.undo == 2
    first, second = slots["undo", "1"], slots["undo", "2"]
    assert (first["result"]["data"], first["args"], first["before"]) == (10, {"n": 1}, 0)
    assert (second["result"]["data"], second["args"], second["before"]) == (20, {"n": 2}, 1)


def test_a_failure_drops_what_is_under_way_and_an_outcome_takes_the_last_run_off() -> None:
    live = f.TokenAdded(f.Arrival(3, "other", args={"x": 1}))
    failing = f.Compensating(BROKEN, "other")
    state, slots = fold(*all_runs(2), live, f.TimerSet("step:3", 9, 60.0, 3), failing, *undo_of(2))

    assert (state.status, state.undoing, state.undo) == ("running", True, 1)
    assert (state.tokens, state.timers) == ({}, {})
    assert ("undo", "2") not in slots and ("args", "3") not in slots
    assert slots["step", "take"]["data"] == 20, "a compensation gives its step no result"
    assert slots[REPORT]["told"] == [{"step": "take", "run": 2, "status": "done"}]


def test_the_run_that_is_being_undone_has_a_token_under_its_own_number() -> None:
    state, _ = fold(*all_runs(2), f.Compensating(BROKEN), undo_of(2)[0])

    assert [(token.run, token.step, token.phase, token.command) for token in state.tokens.values()] == [
        (2, "take", "compensate", "2.compensate")
    ]


@pytest.mark.parametrize(
    "end",
    [f.Completed(("take",)), f.Failed(BROKEN), f.Cancelled("enough")],
    ids=lambda end: type(end).__name__,
)
def test_nothing_is_left_to_undo_after_the_end(end: f.Fact) -> None:
    state, slots = fold(*all_runs(3), end)

    assert (state.undo, state.undoing) == (0, False)
    assert not [key for key in slots if key[0] == "undo"]


def test_state_does_not_grow_with_the_number_of_runs() -> None:
    few, _ = fold(*all_runs(2))
    many, _ = fold(*all_runs(500))

    assert len(encode_state(many)) - len(encode_state(few)) < 20


def test_the_report_is_bounded_and_prefers_what_failed() -> None:
    count = MOST_REPORTED + 30
    late = {3, 7, 11}
    undone = [fact for run in range(count, 0, -1) for fact in undo_of(run, BROKEN if run in late else None)]
    _, slots = fold(*all_runs(count), f.Compensating(BROKEN, "bad"), *undone)
    report = slots[REPORT]

    assert (len(report["told"]), report["more"]) == (MOST_REPORTED, 30)
    failed = [entry for entry in report["told"] if entry["status"] == "failed"]
    assert [entry["run"] for entry in failed] == [11, 7, 3]
    assert all(len(entry["error"]["message"]) == LONGEST for entry in failed)
