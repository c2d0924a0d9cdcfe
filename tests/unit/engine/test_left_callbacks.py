"""What is kept for callbacks goes with the run it is for, however the run ends; its timers in the store go as well."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain import ids
from noetl.domain.events import (
    CallbackDone,
    Cancel,
    ItemAwaits,
    LoopDone,
    LoopSummary,
    TimerFired,
    TokenInjected,
)
from noetl.domain.outcomes.outcomes import CallbackRequest, ErrorInfo, Outcome, Suspend
from noetl.domain.state import Token
from noetl.engine.decision import Decision
from tests.unit.engine.stepping import EID, Stepping, compiled

ONE = """
  - { step: start, next: [ask, other] }
  - step: ask
    spec: { timeout: 60, on_error: sorry }
    tool:
      - tell: { kind: http, url: "http://api.test/tell" }
      - answer: { kind: wait, callback: true, timeout: 3600 }
    next: { arcs: [{ step: end }] }
  - { step: other, tool: { kind: http, url: "http://api.test/other" }, next: { arcs: [{ step: stop }] } }
  - { step: stop, spec: { cancels: [ask] }, tool: { kind: noop } }
  - { step: sorry, tool: { kind: http, url: "http://api.test/sorry" } }
  - { step: end, tool: { kind: noop } }
"""
MANY = ONE.replace("tool:\n", "loop: { in: [1, 2, 3, 4], iterator: who, mode: parallel }\n    tool:\n")
REQUEST = CallbackRequest(0, "ask_task", timeout=3600.0)


def suspended() -> Outcome:
    return Outcome("suspended", suspend=Suspend({}, callback=REQUEST))


def said(one: Stepping, place: str, serial: int) -> CallbackDone:
    return CallbackDone(
        EID, ids.callback_event(place, serial), one.program.hash, place, serial, Outcome("ok", result=1), "d"
    )


def timer(one: Stepping, name: str) -> TimerFired:
    return TimerFired(EID, f"{name}!", one.program.hash, name, one.state.timers.get(name, 0))


def awaiting() -> tuple[Stepping, Token]:
    """A run whose command waits for its callback."""
    one = Stepping(compiled(ONE))
    one.start()
    one.answer(one.at("ask")[0], suspended())
    run = one.at("ask")[0]
    assert list(one.scope("callback")) == [str(run.run)]
    return one, run


def items_awaiting() -> tuple[Stepping, Token]:
    """A loop whose items wait: one is too late already, and one was answered before it waits."""
    one = Stepping(compiled(MANY))
    one.start()
    run = one.at("ask")[0]
    for index in range(3):
        place = ids.item_command_id(run.run, run.round, index)
        one.take(ItemAwaits(EID, f"await:{place}", one.program.hash, "ask", place, place, 1, REQUEST))
    first, early = (ids.item_command_id(run.run, run.round, index) for index in (0, 3))
    one.take(timer(one, ids.callback_timer(first, 0)))
    one.take(said(one, early, 0))
    assert len(one.scope("callback")) == 4
    return one, one.at("ask")[0]


def withdraw(one: Stepping, run: Token) -> Decision:
    return one.answer(one.at("other")[0], Outcome("ok"))


def time_out(one: Stepping, run: Token) -> Decision:
    return one.take(timer(one, f"step:{run.run}"))


def fail(one: Stepping, run: Token) -> Decision:
    return one.answer(one.at("other")[0], Outcome("error", error=ErrorInfo(message="no")))


def cancel(one: Stepping, run: Token) -> Decision:
    return one.take(Cancel(EID, "cancel", one.program.hash))


WAYS = [withdraw, time_out, fail, cancel]


@pytest.mark.parametrize("end", WAYS)
@pytest.mark.parametrize("begin", [awaiting, items_awaiting])
def test_nothing_of_a_callback_stays_when_its_run_is_dropped(begin: Any, end: Any) -> None:
    one, run = begin()
    decision = end(one, run)
    assert not one.at("ask")
    assert one.scope("callback") == {}
    assert decision.over_runs == [run.run], "the store keeps timers and slots that were not read"


def test_nothing_stays_of_a_callback_that_came_early_and_was_never_waited_for() -> None:
    one = Stepping(compiled(ONE))
    one.start()
    run = one.at("ask")[0]
    one.take(said(one, str(run.run), 0))
    assert list(one.scope("callback")) == [str(run.run)]
    assert one.answer(run, Outcome("ok")).over_runs == [run.run]
    assert one.scope("callback") == {}


def test_nothing_stays_of_a_callback_that_did_not_come_in_time() -> None:
    one, run = awaiting()
    one.take(timer(one, ids.callback_timer(str(run.run), 0)))
    assert one.scope("callback") == {str(run.run): {"over": 1}}
    one.answer(one.at("ask")[0], Outcome("ok"))
    assert one.scope("callback") == {}


def test_a_loop_that_ends_leaves_nothing_of_the_callbacks_of_its_items() -> None:
    one, run = items_awaiting()
    summary = LoopSummary(total=4, issued=4, done=4, failed=0, results=[1, 1, 1], patches=[])
    one.take(LoopDone(EID, "loop", one.program.hash, run.run, run.round, "ask", summary))
    assert not one.at("ask")
    assert one.scope("callback") == {}


def test_a_callback_that_comes_leaves_nothing_and_asks_nothing_of_the_store() -> None:
    one, run = awaiting()
    one.take(said(one, str(run.run), 0))
    assert (one.scope("callback"), one.at("ask")[0].callbacks) == ({}, 0)
    assert one.answer(one.at("ask")[0], Outcome("ok")).over_runs == []


def test_a_withdrawn_run_leaves_the_callbacks_of_others() -> None:
    one, run = awaiting()
    one.take(TokenInjected(EID, "i", one.program.hash, "ask"))
    other = one.at("ask")[1]
    one.answer(other, suspended())
    time_out(one, run)
    assert list(one.scope("callback")) == [str(other.run)]
