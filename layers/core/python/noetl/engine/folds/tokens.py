"""Folds of tokens: how one is added, and what is dropped with it."""

from __future__ import annotations

from noetl.domain.facts import facts as f
from noetl.domain.state import RUN_TIMERS, ExecutionState, Token
from noetl.engine.folds.run_results import forget_result
from noetl.engine.folds.slots import SlotSpace, drop_callbacks


def add_token(state: ExecutionState, slots: SlotSpace, arrival: f.Arrival) -> None:
    """Add the token of ``arrival`` at its step."""
    state.tokens[arrival.run] = Token(
        arrival.run, arrival.step, arc=arrival.arc, sync=arrival.sync, again=arrival.again
    )
    state.next_run = max(state.next_run, arrival.run + 1)
    if arrival.args:
        slots[("args", str(arrival.run))] = arrival.args


def drop_token(state: ExecutionState, slots: SlotSpace, run: int) -> None:
    """Remove a token with everything that is kept for its run alone."""
    token = state.tokens.pop(run, None)
    slots.pop(("args", str(run)), None)
    if token is not None:
        forget_result(slots, token)
        drop_callbacks(slots, token)
    for timer in RUN_TIMERS:
        state.timers.pop(f"{timer}:{run}", None)
