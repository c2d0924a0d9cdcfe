"""What a budget counts of runs that are not simply over, and what may be added to its cost."""

from __future__ import annotations

import pytest

from noetl.domain.events import TimerFired
from noetl.domain.outcomes.outcomes import Outcome, Patch, Suspend
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.versions import SEMANTICS
from noetl.kinds.registry import default_registry
from tests.unit.engine.stepping import EID, Stepping

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: t }
executor: { spec: { budget: { calls: 3, cost: 5 } } }
workflow:
"""
CYCLE = """  - step: start
    tool: { kind: http, url: "http://api.test/x" }
    next: { arcs: [{ step: start }] }
"""
TIMED = """  - step: start
    spec: { timeout: 10s }
    LOOP
    tool: { kind: http, url: "http://api.test/x" }
    next: { arcs: [{ step: start, when: "{{ event.name == 'step.failed' }}" }] }
"""
ENTRY = """  - step: start
    tool: { kind: noop }
    case:
      - when: "{{ event.name == 'step.exit' }}"
        then: [{ ask: { kind: http, url: "http://api.test/x" } }, { next: [start] }]
"""
MOST = 10


def begun(workflow: str, semantics: int = SEMANTICS) -> Stepping:
    compiled = compile_playbook(HEAD + workflow, kinds=default_registry(), semantics=semantics)
    stepping = Stepping(compiled.program)
    stepping.start()
    return stepping


def time_out(stepping: Stepping) -> None:
    (token,) = stepping.at("start")
    timer = f"step:{token.run}"
    generation = stepping.state.timers[timer]
    stepping.take(TimerFired(EID, f"{timer}:{generation}", stepping.program.hash, timer, generation))


def failed_by(stepping: Stepping) -> str:
    assert stepping.state.status == "failed" and stepping.state.error is not None
    return stepping.state.error.code


@pytest.mark.parametrize("loop", ["", "loop: { in: [1, 2], iterator: n }"])
def test_a_cycle_of_runs_that_are_timed_out_ends(loop: str) -> None:
    stepping = begun(TIMED.replace("LOOP", loop))
    for _ in range(3):
        time_out(stepping)
    assert failed_by(stepping) == "budget_exceeded"


def test_a_cycle_of_entries_with_tasks_ends() -> None:
    stepping = begun(ENTRY)
    for _ in range(3):
        stepping.answer(*stepping.at("start"), Outcome("ok", 1))
    assert failed_by(stepping) == "budget_exceeded"


def waiting(calls: int, *, spends: bool = False, cost: float = 0) -> Outcome:
    patches = [Patch("ctx", "cost", cost, "add")] if cost else []
    suspend = Suspend({}, delay=0.0, spends=spends)
    return Outcome("suspended", patches=patches, suspend=suspend, meta={"calls": calls})


def test_calls_of_a_run_that_goes_on_count_once() -> None:
    stepping = begun(CYCLE)
    for made in (1, 2):
        stepping.answer(*stepping.at("start"), waiting(made))
        assert stepping.state.calls == made
    stepping.answer(*stepping.at("start"), Outcome("ok", 1, meta={"attempts": 3}))
    assert (stepping.state.calls, failed_by(stepping)) == (3, "budget_exceeded")


@pytest.mark.parametrize(
    ("calls", "cost", "account"), [(3, 0, "calls"), (1, 5, "cost"), (1, 10**400, "cost")]
)
def test_a_task_that_begins_again_asks_the_budget(calls: int, cost: float, account: str) -> None:
    stepping = begun(CYCLE)
    stepping.answer(*stepping.at("start"), waiting(calls - 1, spends=True))
    assert stepping.state.status == "running"
    decision = stepping.answer(*stepping.at("start"), waiting(calls, spends=True, cost=cost))
    assert failed_by(stepping) == "budget_exceeded" and decision.end
    assert stepping.state.error is not None and stepping.state.error.details["budget"] == account
    assert stepping.state.calls == calls and stepping.slots.get(("ctx", "cost"), 0) == cost
    assert [token.step for token in stepping.state.left] == ["start"], "a redrive begins there"


def test_a_wait_that_makes_no_further_call_exceeds_nothing() -> None:
    stepping = begun(CYCLE.replace("    next: { arcs: [{ step: start }] }\n", ""))
    stepping.answer(*stepping.at("start"), waiting(3))
    stepping.answer(*stepping.at("start"), Outcome("ok", 1, meta={"attempts": 3}))
    assert (stepping.state.status, stepping.state.calls) == ("completed", 3)


def test_no_outcome_refills_the_budget() -> None:
    stepping = begun(CYCLE)
    stepping.answer(*stepping.at("start"), waiting(2))
    stepping.answer(*stepping.at("start"), waiting(-9))
    stepping.answer(*stepping.at("start"), Outcome("ok", 1, meta={"calls": -9}))
    assert stepping.state.calls == 2
    cost = [Patch("ctx", "cost", -1, "add")]
    stepping.answer(*stepping.at("start"), Outcome("ok", 1, patches=cost))
    assert failed_by(stepping) == "negative_cost"


def test_a_negative_cost_beyond_a_double_is_named_by_its_size() -> None:
    stepping = begun(CYCLE)
    cost = [Patch("ctx", "cost", -(10**400), "add")]
    stepping.answer(*stepping.at("start"), Outcome("ok", 1, patches=cost))
    assert failed_by(stepping) == "negative_cost"
    assert stepping.state.error is not None and "about -1e+400" in stepping.state.error.message


def test_programs_of_before_count_as_they_did() -> None:
    timed, entries, cycle = (begun(text, semantics=5) for text in (TIMED.replace("LOOP", ""), ENTRY, CYCLE))
    for _ in range(MOST):
        time_out(timed)
        entries.answer(*entries.at("start"), Outcome("ok", 1))
    cycle.answer(*cycle.at("start"), Outcome("ok", 1, patches=[Patch("ctx", "cost", -1, "add")]))
    assert [one.state.status for one in (timed, entries, cycle)] == ["running"] * 3
    assert [one.state.calls for one in (timed, entries, cycle)] == [0, 0, 1]
