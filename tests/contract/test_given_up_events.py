"""Events on which the engine fails three times: what becomes of their execution."""

from __future__ import annotations

import pytest

from noetl.domain.events import CallbackDone, ChildDone, CommandDone, ContextPatched, Event, TimerFired
from noetl.domain.facts.facts import CallDone, CallFailed, Cancelled, decode_facts
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.state import decode_state
from noetl.services.orchestrator.engine_deps import BatchEffects
from noetl.services.orchestrator.failed_events import TRIES, after_failure
from tests.contract.test_families import HEAD, Family

UNDOING = (
    HEAD + "metadata: { name: undoing, path: fam/undoing }\nworkflow:\n"
    "  - step: start\n    tool: { kind: noop }\n"
    '    spec: { compensate: { kind: http, url: "http://api.test/x" } }\n'
    "    next: { arcs: [{ step: breaks }] }\n"
    '  - { step: breaks, tool: { kind: http, url: "http://api.test/x", params: { fail: auth } } }\n',
)


def test_a_request_that_breaks_the_engine_leaves_an_execution_to_compensate(harness):
    """It fails in any case, with the error it had, and not before it has undone what was done."""
    family = Family(harness, UNDOING)
    store, driver = family.store, family.driver
    while not (info := store.info(family.root)).version or not decode_state(info.state).undoing:
        driver.tick()
    event = ContextPatched(family.root, "ext:1", family.program.hash, [], principal="user:eve")
    handled = BatchEffects()
    assert after_failure(event, ValueError("broken"), TRIES, driver.deps, handled) is None
    driver.follow(handled)
    assert store.info(family.root).status == "running"
    driver.settle()
    error = decode_state(store.info(family.root).state).error
    assert (store.info(family.root).status, error.kind) == ("failed", "auth")
    facts = [one for row in store.events(family.root, after=0, limit=100) for one in decode_facts(row.facts)]
    undone = [one.run for one in facts if isinstance(one, CallDone) and one.stage == "compensate"]
    assert undone == [1]


TWO_TO_UNDO = (
    HEAD + "metadata: { name: two, path: fam/two }\nworkflow:\n"
    "  - step: start\n    tool: { kind: noop }\n"
    '    spec: { compensate: { kind: http, url: "http://api.test/x" } }\n'
    "    next: { arcs: [{ step: second }] }\n"
    "  - step: second\n    tool: { kind: noop }\n"
    "    spec: { compensate: UNDO }\n"
    "    next: { spec: { mode: inclusive }, arcs: [{ step: breaks }, { step: beside }] }\n"
    '  - { step: breaks, tool: { kind: http, url: "http://api.test/x", params: { fail: auth } } }\n'
    '  - { step: beside, tool: { kind: http, url: "http://api.test/x" } }\n',
    HEAD + "metadata: { name: child, path: fam/child }\nworkflow:\n"
    "  - { step: start, tool: { kind: noop } }\n",
)
"""Run 2 is undone first, then run 1. Run 4, `beside`, is under way when run 3 fails."""
CALLS = '{ kind: http, url: "http://api.test/x" }'
STARTS_A_CHILD = "{ kind: playbook, path: fam/child }"
WAITS = "{ kind: wait, callback: true, timeout: 500 }"


class Undoing:
    """An execution whose second run is being undone. ``breaks``: what the engine fails on instead of handling it, noted in ``broken``."""

    def __init__(self, harness, undo: str, breaks) -> None:
        texts = tuple(text.replace("UNDO", undo) for text in TWO_TO_UNDO)
        self.family = family = Family(harness, texts)
        self.broken: list[Event] = []
        handle = family.driver.handle

        def handled(events):
            bad = [one for one in events if breaks(one)]
            self.broken += bad
            for one in bad:
                self.give_up(one)
            if good := [one for one in events if one not in bad]:
                handle(good)

        family.driver.handle = handled

    def give_up(self, event: Event) -> None:
        handled = BatchEffects()
        driver = self.family.driver
        assert after_failure(event, ValueError("broken"), TRIES, driver.deps, handled) is None
        driver.follow(handled)

    @property
    def state(self):
        return decode_state(self.family.store.info(self.family.root).state)

    def until_undoing(self) -> None:
        while not self.family.store.info(self.family.root).version or not self.state.undoing:
            self.family.driver.tick()

    def check(self, failed: list[int], done: list[int]) -> None:
        """It fails with its own error, having tried to undo both runs, and nothing is left of it."""
        family = self.family
        family.driver.settle()
        info, error = family.store.info(family.root), self.state.error
        assert (info.status, error.kind) == ("failed", "auth")
        assert "compensation_stopped" not in error.details
        rows = family.store.events(family.root, after=0, limit=100)
        facts = [one for row in rows for one in decode_facts(row.facts)]
        undone = [one for one in facts if getattr(one, "stage", "") == "compensate"]
        assert [one.run for one in undone if isinstance(one, CallFailed)] == failed
        assert [one.run for one in undone if isinstance(one, CallDone)] == done
        told = {one["run"]: one["status"] for one in error.details["compensation"]}
        assert told == {**dict.fromkeys(failed, "failed"), **dict.fromkeys(done, "done")}
        assert not any(family.store.open_work(family.root).values())


@pytest.mark.parametrize(
    ("undo", "breaks"),
    [
        (CALLS, lambda event: isinstance(event, CommandDone) and event.command_id == "2.compensate"),
        (STARTS_A_CHILD, lambda event: isinstance(event, ChildDone)),
    ],
    ids=["report", "child"],
)
def test_a_compensation_whose_answer_breaks_the_engine_has_failed_and_the_next_one_runs(
    harness, undo, breaks
):
    undoing = Undoing(harness, undo, breaks)
    undoing.check(failed=[2], done=[1])
    assert len(undoing.broken) == 1


@pytest.mark.parametrize("attempt", [0, 7])
def test_a_report_that_no_compensation_waits_for_stops_none(harness, attempt):
    """Of a run that was dropped when another failed, or of another attempt of the compensation itself."""
    undoing = Undoing(harness, CALLS, lambda event: False)
    undoing.until_undoing()
    family = undoing.family
    run, name, stage = (2, "2.compensate", "compensate") if attempt else (4, "4", "body")
    late = CommandDone(
        family.root, f"late:{name}", family.program.hash, name, attempt, 0, run, "x", Outcome("ok"), stage
    )
    undoing.give_up(late)
    undoing.check(failed=[], done=[2, 1])


@pytest.mark.parametrize("form", [CallbackDone, TimerFired])
def test_a_compensation_that_waits_for_an_answer_fails_when_that_breaks_the_engine(harness, form):
    """Its own answer, or the end of its time; those of another wait change nothing."""
    undoing = Undoing(harness, WAITS, lambda event: False)
    undoing.until_undoing()
    family = undoing.family
    family.driver.settle()
    assert [token.run for token in undoing.state.tokens.values()] == [2]

    def answer(place: str, serial: int) -> Event:
        head = (family.root, f"answer:{place}:{serial}", family.program.hash)
        if form is TimerFired:
            return TimerFired(*head, f"callback:{place}:{serial}", 0)
        return CallbackDone(*head, place, serial, Outcome("ok"))

    before = undoing.state
    undoing.give_up(answer("2.compensate", 8))
    undoing.give_up(answer("1.compensate", 0))
    assert undoing.state == before
    undoing.give_up(answer("2.compensate", 0))
    undoing.check(failed=[2], done=[1])


WITH_A_CHILD = (
    HEAD + "metadata: { name: above, path: fam/above }\nworkflow:\n"
    "  - { step: start, tool: { kind: playbook, path: fam/child } }\n",
    HEAD + "metadata: { name: child, path: fam/child }\nworkflow:\n"
    "  - { step: start, tool: { kind: wait, callback: true, timeout: 500 } }\n",
)


def test_a_child_is_told_why_the_engine_gave_its_parent_up(harness):
    family = Family(harness, WITH_A_CHILD)
    family.driver.settle()
    event = ContextPatched(family.root, "ext:1", family.program.hash, [], principal="user:eve")
    handled = BatchEffects()
    assert after_failure(event, ValueError("broken"), TRIES, family.driver.deps, handled) is None
    family.driver.follow(handled)
    family.driver.settle()
    (child,) = [one for one in family.store.executions(limit=10) if one.parent_execution_id == family.root]
    rows = family.store.events(child.execution_id, after=0, limit=100)
    (end,) = [one for row in rows for one in decode_facts(row.facts) if isinstance(one, Cancelled)]
    assert end.reason.startswith(
        "the parent execution failed: the engine could not handle event ContextPatched"
    )
    assert end.reason.endswith("broken") and (child.status, end.principal) == ("cancelled", "")
