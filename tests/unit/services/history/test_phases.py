"""Phases of a step run: the time before an outcome is divided by what the worker says the call took."""

from __future__ import annotations

from noetl.services.history.phases import MOST, Phases


def folded(*rows):
    """Fold facts of run 1, each with its moment; return the run's phases as pairs."""
    phases = Phases()
    for at, name, more in rows:
        phases.add_facts([{"name": name, "run": 1, "step": "load", **more}], at)
    return [(one.kind, one.at) for one in phases.of(phases.progress.runs[1])]


def test_a_call_that_is_tried_again_after_a_delay():
    assert folded(
        (1.0, "step.enter", {}),
        (1.0, "command.issued", {}),
        (5.0, "call.error", {"meta": {"duration_ms": 1000}}),
        (5.0, "command.issued", {"delay": 3.0}),
        (9.0, "call.done", {"meta": {"duration_ms": 500}}),
        (9.0, "step.exit", {}),
    ) == [("queued", 1.0), ("running", 4.0), ("retrying", 5.0), ("running", 8.5)]


def test_a_step_that_waits_to_be_admitted_and_then_for_its_child():
    assert folded(
        (1.0, "step.parked", {}),
        (4.0, "step.enter", {}),
        (4.0, "command.issued", {}),
        (6.0, "child.started", {"child": 7}),
        (9.0, "command.issued", {}),
        (9.5, "call.done", {"meta": {}}),
    ) == [("admission", 1.0), ("running", 4.0), ("child", 6.0), ("running", 9.0)]


def test_what_is_under_way_counts_as_running():
    assert folded((1.0, "step.enter", {}), (2.0, "command.issued", {})) == [("running", 1.0)]


def test_a_duration_that_is_none_or_longer_than_the_time_does_no_harm():
    for took in (None, "long", True, 1e9, -5, 10**400, float("nan")):
        found = folded((1.0, "command.issued", {}), (2.0, "call.done", {"meta": {"duration_ms": took}}))
        assert all(1.0 <= at <= 2.0 for _, at in found), found


def test_the_phases_of_a_run_have_an_end():
    rows = [(float(n), "command.issued", {"delay": float(n % 2)}) for n in range(3 * MOST)]
    assert MOST < len(folded(*rows)) <= MOST + 2


def test_a_wait_says_for_what():
    issued = ("command.issued", {"turn": 1, "delay": 60.0})
    assert folded(
        (1.0, "step.parked", {"lock": "orders"}),
        (2.0, "step.enter", {}),
        (2.0, "command.issued", {"limits": ["api"]}),
        (5.0, "wait.started", {"until": 65.0, "meta": {"duration_ms": 1000}}),
        (5.0, *issued),
        (70.0, "callback.awaited", {"meta": {"duration_ms": 4000}}),
        (70.0, "command.issued", {"turn": 2}),
        (90.0, "wait.started", {"until": 0.0, "remote": True}),
        (90.0, *issued),
        (99.0, "call.done", {"meta": {}}),
    ) == [
        ("lock", 1.0),
        ("limit", 2.0),
        ("running", 4.0),
        ("timer", 5.0),
        ("callback", 70.0),
        ("external", 90.0),
        ("running", 99.0),
    ]


def test_a_join_waits_from_its_first_token_on():
    phases = Phases()
    for at, run in ((3.0, 5), (8.0, 6)):
        targets = [{"run": run, "step": "join", "arc": run}]
        phases.add_facts([{"name": "next.evaluated", "run": run - 3, "step": "a", "targets": targets}], at)
    phases.add_facts([{"name": "step.enter", "run": 6, "step": "join", "merged": [5]}], 8.0)
    found = phases.of(phases.progress.runs[6])
    assert [(one.kind, one.at) for one in found] == [("join", 3.0), ("running", 8.0)]


def test_a_run_that_waits_for_a_slot_now_says_so():
    phases = Phases()
    phases.add_facts([{"name": "command.issued", "run": 1, "step": "load", "limits": ["api"]}], 1.0)
    step_run = phases.progress.runs[1]
    assert [one.kind for one in phases.of(step_run)] == ["running"]
    assert [one.kind for one in phases.of(step_run, limited=True)] == ["limit"]
