"""Every conformance case, in memory and on Postgres: outcome as the case says, history the same in both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from noetl.adapters.changes import SUPERSEDED_LANE
from noetl.domain import codec
from noetl.services.history.replay import replay
from noetl.testing.play_case import Observed
from tests.conformance.cases import Case, compact, dump_history, find_cases, load_history, play, played
from tests.conformance.memory import in_memory
from tests.conformance.order import check_order
from tests.parts import sampled

CASES = {case.name: case for case in find_cases()}
TERMINAL = {"playbook.completed", "playbook.failed", "execution.cancelled"}
INLINE_ROW = 48 * 1024


@pytest.mark.parametrize(("where", "name"), played(CASES, CASES, sampled(CASES)))
def test_case(where: str, name: str, worker, update_history: bool, request: pytest.FixtureRequest) -> None:
    """In memory every case; on Postgres one of each feature, and all of them in `make test-full`."""
    case = CASES[name]
    if where == "memory":
        backend, seen = in_memory(name)
    else:
        backend = request.getfixturevalue(f"{where}_backend")
        seen = play(case, backend, worker)
    check_tools(seen, case)
    check_outcome(seen, case.expect)
    check_flow(seen, case.expect, backend.tolerance)
    check_peaks(seen, case.expect)
    check_laws(seen, backend, case)
    if update_history:
        case.history_file.write_text(dump_history(seen.histories))
    assert {name: compact(steps) for name, steps in seen.histories.items()} == load_history(case)


def check_tools(seen: Observed, case: Case, *, all_used: bool = True) -> None:
    """``all_used``: nothing is withdrawn before it makes its calls, which is a matter of the order in which commands end."""
    assert seen.tools.unexpected == []
    if all_used and not case.spec.get("unused_tools"):
        assert seen.tools.left_over() == {}
    assert seen.left == [], "happenings whose moment never came"


def check_outcome(seen: Observed, expect: Mapping[str, Any]) -> None:
    assert (seen.status, seen.error) == (expect["status"], seen.error)
    if expect["status"] == "completed":
        assert seen.error is None
    if "result" in expect:
        assert seen.result == expect["result"]
        assert types_of(seen.result) == types_of(expect["result"])
    for scope in ("ctx", "vars"):
        if scope in expect:
            assert getattr(seen, scope) == expect[scope]
    if "error" in expect:
        assert seen.error is not None
        for key, wanted in expect["error"].items():
            found = seen.error.get(key)
            fits = wanted in found if key in ("message", "position") else contains(found, wanted)
            assert fits, (key, seen.error)
    if "executions" in expect:
        assert {path: sorted(found) for path, found in seen.executions.items()} == {
            path: sorted(wanted) for path, wanted in expect["executions"].items()
        }


def types_of(value: Any) -> Any:
    """Shape of a value: ``1``, ``1.0`` and ``true`` are equal in Python, and not the same in JSON."""
    if isinstance(value, dict):
        return {key: types_of(item) for key, item in value.items()}
    if isinstance(value, list):
        return [types_of(item) for item in value]
    return type(value).__name__


def check_flow(seen: Observed, expect: Mapping[str, Any], tolerance: float) -> None:
    for step in expect.get("never", ()):
        assert seen.runs(step) == 0, f"{step} ran"
    for step, times in expect.get("runs", {}).items():
        assert seen.runs(step) == times, f"runs of {step}"
    for key, wanted in expect.get("calls", {}).items():
        found = seen.tools.calls.get(key, [])
        assert len(found) == len(wanted), f"calls of {key}: {found}"
        for params, part in zip(found, wanted, strict=True):
            assert contains(params, part), f"{key} was called with {params}, not with {part}"
    for key, times in expect.get("call_counts", {}).items():
        assert len(seen.tools.calls.get(key, [])) == times, f"calls of {key}"
    for key, most in expect.get("most_calls", {}).items():
        assert len(seen.tools.calls.get(key, [])) <= most, f"calls of {key}"
    if "elapsed" in expect:
        assert seen.elapsed == pytest.approx(expect["elapsed"], abs=tolerance)


def check_peaks(seen: Observed, expect: Mapping[str, Any]) -> None:
    """Only the driver sees how many items of a loop are out at a moment."""
    for step, peak in expect.get("max_in_flight", {}).items():
        assert seen.driver.in_flight.get(step) == peak, f"items of {step} in flight"


def contains(whole: Any, part: Any) -> bool:
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(
            key in whole and contains(whole[key], item) for key, item in part.items()
        )
    return bool(whole == part)


def check_laws(seen: Observed, backend, case: Case) -> None:
    """What holds for every execution, whatever the playbook."""
    for execution_id, events in seen.events.items():
        names = [event.event_type for event in events]
        status = backend.store.info(execution_id).status
        over = status in ("completed", "failed", "cancelled")
        rounds = names.count("execution.redriven")
        assert sum(name in TERMINAL for name in names) == rounds + (1 if over else 0)
        if over:
            assert set(backend.store.open_work(execution_id).values()) == {0}
        check_order(events, status)
        report = replay(backend.store, execution_id)
        assert report.agrees, report.differences
        for event in events:
            assert len(codec.encode(event.payload)) < INLINE_ROW, "history carries a large value"
        assert len({event.event_id for event in events}) == len(events)
    large = any(
        b"result_ref" in codec.encode(event.payload) for events in seen.events.values() for event in events
    )
    assert large == bool(case.expect.get("references")), "results that travelled by reference"


PAIRS = [(name, case.spec["same_as"]) for name, case in CASES.items() if "same_as" in case.spec]


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_two_spellings_have_one_history(name: str, other: str, backend, worker) -> None:
    first, second = (play(CASES[which], backend, worker) for which in (name, other))
    assert first.histories == second.histories
    assert first.result == second.result


def test_there_are_enough_cases() -> None:
    features = {name.split("/")[0] for name in CASES}
    assert len(CASES) >= 140
    assert features >= {
        "actions",
        "admission",
        "arcs",
        "document",
        "events",
        "external",
        "failures",
        "joins",
        "loops",
        "policy",
    }
    assert features >= {"results", "spellings", "sub", "templates", "timeouts", "vars"}


def test_late_outcomes_are_recorded(backend, worker) -> None:
    seen = play(CASES["failures/unanswered"], backend, worker)

    late = backend.store.item_events(seen.execution_id, SUPERSEDED_LANE)
    assert [row.type for row in late] == ["command.superseded"]
