"""Folding what happened to callbacks: what is awaited, what came early, and what is over, in slots by place; and counts of it in tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.domain.callbacks import SCOPE, Awaited
from noetl.domain.patches import MISSING
from noetl.domain.state import ExecutionState
from noetl.domain.waiting_facts import CallbackAwaited, CallbackExpired, CallbackReceived, WaitStarted
from noetl.engine.folding import SlotSpace


def rests(state: ExecutionState, slots: SlotSpace, fact: WaitStarted) -> None:
    """Told for history; the CommandIssued that goes with it moves the token."""


def awaited(state: ExecutionState, slots: SlotSpace, fact: CallbackAwaited) -> None:
    """Somebody is waited for; or the answer that came before is taken."""
    if fact.early:
        slots.pop((SCOPE, fact.place), None)
        return
    kept = Awaited(
        fact.serial,
        fact.command_id,
        fact.turn,
        fact.step,
        fact.task,
        fact.since,
        fact.until,
        fact.message,
        fact.approve,
        fact.schema,
    )
    slots[(SCOPE, fact.place)] = msgspec.to_builtins(kept)
    token = state.tokens[fact.run]
    token.awaits += 1
    token.unbounded += fact.until is None
    if fact.index < 0:
        token.serial = fact.serial


def received(state: ExecutionState, slots: SlotSpace, fact: CallbackReceived) -> None:
    """The answer is there; before anybody waits for it, it is kept."""
    if fact.early:
        slots[(SCOPE, fact.place)] = {"for": fact.serial, "early": msgspec.to_builtins(fact.outcome)}
        return
    _no_longer_awaited(state, slots, fact.run, fact.place)
    slots.pop((SCOPE, fact.place), None)


def expired(state: ExecutionState, slots: SlotSpace, fact: CallbackExpired) -> None:
    """It is not waited for any more: should it come yet, it is too late."""
    _no_longer_awaited(state, slots, fact.run, fact.place)
    slots[(SCOPE, fact.place)] = {"over": fact.serial + 1}


def _no_longer_awaited(state: ExecutionState, slots: SlotSpace, run: int, place: str) -> None:
    token, slot = state.tokens[run], slots.get((SCOPE, place), MISSING)
    token.awaits -= 1
    token.unbounded -= slot.get("until") is None
    token.serial = -1


FOLDS: dict[type, Callable[[ExecutionState, SlotSpace, Any], None]] = {
    WaitStarted: rests,
    CallbackAwaited: awaited,
    CallbackReceived: received,
    CallbackExpired: expired,
}
