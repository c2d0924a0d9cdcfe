"""Folds of the ends of an execution, and of the redrive that begins its next round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.domain.facts import facts as f
from noetl.domain.state import ExecutionState, Token, Verdict
from noetl.engine.folds.compensation import begin_undoing, forget
from noetl.engine.folds.run_results import forget_result
from noetl.engine.folds.slots import SlotSpace, drop_callbacks
from noetl.engine.folds.tokens import add_token, drop_token


def _completed(state: ExecutionState, slots: SlotSpace, fact: f.Completed) -> None:
    _clear(state, slots)
    state.status, state.verdict = "completed", None
    forget(state, slots)


def _redriven(state: ExecutionState, slots: SlotSpace, fact: f.Redriven) -> None:
    """Fold a redrive: the tokens that were left come again as new runs.

    From a step, only that one runs, and no join has fired.
    """
    state.status, state.error, state.program = "running", None, fact.program
    state.started, state.rounds = fact.at, state.rounds + 1
    state.idle += fact.idle
    state.calls = 0
    for token in state.left:
        slots.pop(("args", str(token.run)), None)
    state.left = []
    if fact.step:
        state.final = False
        state.fired.clear()
        state.waves.clear()
    for step, arcs in state.waves.items():
        state.waves[step] = [fact.arcs.get(arc, arc) for arc in arcs]
    for arrival in fact.arrivals:
        add_token(state, slots, arrival)


def _compensating(state: ExecutionState, slots: SlotSpace, fact: f.Compensating) -> None:
    _clear(state, slots)
    begin_undoing(state, slots, fact.error, fact.step)


def _ending(state: ExecutionState, slots: SlotSpace, fact: f.Ending) -> None:
    """Fold a decided outcome: the workflow stops, and the first of the last steps begins.

    What could be undone is forgotten with the end: stores drop that scope by themselves only then.
    """
    verdict = Verdict(fact.status, fact.error, fact.step, fact.steps, fact.reason, fact.principal)
    if fact.status == "completed":
        _clear(state, slots)
    else:
        verdict.fired, verdict.waves = state.fired, state.waves
        _stop(state, slots)
        state.fired, state.waves = [], {}
    state.status, state.verdict = "running", verdict
    add_token(state, slots, fact.arrival)


def _failed(state: ExecutionState, slots: SlotSpace, fact: f.Failed) -> None:
    state.error = fact.error
    _end(state, slots, "failed")


def _cancelled(state: ExecutionState, slots: SlotSpace, fact: f.Cancelled) -> None:
    _end(state, slots, "cancelled")


def _end(state: ExecutionState, slots: SlotSpace, status: Any) -> None:
    """Fold the end of an execution that did not complete.

    After the last tasks of its playbook, the tokens of the workflow are those that stopped before.
    """
    if state.verdict is None:
        _stop(state, slots)
    else:
        for run in list(state.tokens):
            drop_token(state, slots, run)
        state.timers.clear()
        state.fired, state.waves, state.verdict = state.verdict.fired, state.verdict.waves, None
    state.status = status
    forget(state, slots)


def _stop(state: ExecutionState, slots: SlotSpace) -> None:
    """Stop all tokens where they are, and keep their values for a redrive.

    A redrive does not resume a compensation.
    """
    live = [token for token in state.tokens.values() if token.phase != "compensate"]
    for token in state.tokens.values():
        forget_result(slots, token)
        drop_callbacks(slots, token)
        if token.phase == "compensate":
            slots.pop(("args", str(token.run)), None)
    state.left = [_left(token) for token in live]
    state.tokens.clear()
    state.timers.clear()


def _left(token: Token) -> Token:
    """Return the part of a token that a redrive needs."""
    return Token(
        token.run,
        token.step,
        token.phase,
        arc=token.arc,
        sync=token.sync,
        round=token.round,
        again=token.again,
        applied=token.applied,
    )


def _clear(state: ExecutionState, slots: SlotSpace) -> None:
    """Drop all tokens, timers and waves: no work is in progress any more."""
    for run in list(state.tokens):
        drop_token(state, slots, run)
    state.timers.clear()
    state.fired.clear()
    state.waves.clear()


FOLDS: dict[type, Callable[[ExecutionState, SlotSpace, Any], None]] = {
    f.Completed: _completed,
    f.Compensating: _compensating,
    f.Ending: _ending,
    f.Failed: _failed,
    f.Cancelled: _cancelled,
    f.Redriven: _redriven,
}
