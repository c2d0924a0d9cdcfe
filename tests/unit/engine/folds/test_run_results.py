"""The result of a run is its own until it leaves its step: where it is kept, who sees it, and that nothing of it stays."""

from __future__ import annotations

import pytest

from noetl.domain.events import Cancel, TimerFired, TokenInjected
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.state import Token
from noetl.engine.scopes.slot_view import DELETED
from tests.unit.engine.stepping import EID, Stepping, compiled

BOOKINGS = """
  - step: start
    next: [{ step: book, args: { n: 1 } }, { step: book, args: { n: 2 } }]
  - step: book
    spec: { join: each, timeout: 60 }
    tool: { kind: http, url: "http://api.test/{{ args.n }}" }
    case:
      - when: "{{ event.name == 'step.exit' }}"
        then:
          - tell: { kind: http, url: "http://api.test/tell/{{ book.data.seat }}" }
          - next: [{ step: end, args: { seat: "{{ book.data.seat }}" } }]
  - step: end
    spec: { join: each }
    tool: { kind: http, url: "http://api.test/{{ args.seat }}" }
    next: stop
  - { step: stop, spec: { cancels: [book] }, tool: { kind: http, url: "http://api.test/stop" } }
"""
CHAIN = """
  - { step: start, tool: { kind: http, url: "http://api.test/1" }, next: second }
  - { step: second, tool: { kind: noop, args: { got: "{{ start.data.seat }}" } }, next: third }
  - { step: third, tool: { kind: http, url: "http://api.test/{{ second.data.got }}" } }
"""


def seat(letter: str) -> Outcome:
    return Outcome("ok", result={"seat": letter})


def booked() -> tuple[Stepping, Token, Token]:
    """Two runs of one step, both called, both waiting for the task of their case."""
    one = Stepping(compiled(BOOKINGS))
    one.start()
    for letter in "ab":
        one.answer(next(token for token in one.at("book") if token.phase == "body"), seat(letter))
    first, second = one.at("book")
    assert (first.phase, second.phase) == ("case", "case")
    return one, first, second


def test_runs_that_were_called_keep_their_results_until_they_leave_and_the_last_to_leave_wins():
    one, first, second = booked()
    assert {name: slot["data"] for name, slot in one.scope("run").items()} == {
        str(first.run): {"seat": "a"},
        str(second.run): {"seat": "b"},
    }
    assert "book" not in one.scope("step"), "a run that has not left its step told others of its result"

    one.answer(second, Outcome("ok"))
    assert one.scope("step")["book"]["data"] == {"seat": "b"}
    one.reads.clear()
    one.answer(first, Outcome("ok"))

    assert one.scope("step")["book"]["data"] == {"seat": "a"}
    assert [one.slots["args", str(token.run)] for token in one.at("end")] == [{"seat": "b"}, {"seat": "a"}]
    assert one.scope("run") == {}
    assert one.reads == [], "the run's own result comes with the first read"


def test_the_command_of_a_case_carries_the_result_of_its_own_run():
    one = Stepping(compiled(BOOKINGS))
    one.start()
    one.answer(one.at("book")[1], seat("b"))
    decision = one.answer(one.at("book")[0], seat("a"))
    [command] = decision.issue
    assert command.scope.steps["book"]["data"] == command.scope.extra["result"] == {"seat": "a"}


def test_a_step_without_tasks_in_its_cases_writes_one_slot_for_its_result_and_deletes_none():
    one = Stepping(compiled(CHAIN))
    one.start()
    written = one.answer(one.at("start")[0], seat("a")).slots
    assert [key for key, value in written.items() if value is DELETED] == []
    assert [key for key in written if key[0] != "args"] == [("step", "start"), ("step", "second")]
    assert one.reads == []


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda one, run: Cancel(EID, "cancel", one.program.hash), id="cancelled"),
        pytest.param(
            lambda one, run: TimerFired(
                EID, "t", one.program.hash, f"step:{run}", one.state.timers[f"step:{run}"]
            ),
            id="timed out, and the execution failed",
        ),
        pytest.param(lambda one, run: TokenInjected(EID, "i", one.program.hash, "stop"), id="withdrawn"),
    ],
)
def test_nothing_of_a_result_stays_when_a_run_ends_in_another_way(end):
    one, first, _ = booked()
    one.take(end(one, first.run))
    assert not one.at("book")
    assert one.scope("run") == {}


def test_tokens_that_a_redrive_finds_have_no_result():
    one, first, second = booked()
    one.take(Cancel(EID, "cancel", one.program.hash))
    assert [(token.run, token.own) for token in one.state.left] == [(first.run, False), (second.run, False)]
