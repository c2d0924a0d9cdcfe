"""Folds of callback facts: slots by place, and counts in tokens.

The slots hold what is awaited, what came early, and what is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.domain.callbacks import SCOPE, Awaited
from noetl.domain.facts.waits import CallbackAwaited, CallbackExpired, CallbackReceived, WaitStarted
from noetl.domain.patches.scope_patches import MISSING
from noetl.domain.state import ExecutionState, Token
from noetl.engine.folds.slots import SlotSpace


def rests(state: ExecutionState, slots: SlotSpace, fact: WaitStarted) -> None:
    """Note until when a run waits for a time.

    The CommandIssued beside it moves the token.
    """
    if not fact.remote:
        state.tokens[fact.run].wakes = fact.until


def awaited(state: ExecutionState, slots: SlotSpace, fact: CallbackAwaited) -> None:
    """Fold the start of a wait: keep what is awaited, or take the answer that came before."""
    token = state.tokens[fact.run]
    if fact.early:
        _forget(slots, token, fact.place)
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
        fact.proofs,
    )
    _keep(slots, token, fact.place, msgspec.to_builtins(kept))
    token.awaits += 1
    token.unbounded += fact.until is None
    if fact.index < 0:
        token.serial = fact.serial


def received(state: ExecutionState, slots: SlotSpace, fact: CallbackReceived) -> None:
    """Fold the answer to a callback; before a pipeline waits for it, the answer is kept."""
    token = state.tokens[fact.run]
    if fact.early:
        kept = {"for": fact.serial, "early": msgspec.to_builtins(fact.outcome)}
        _keep(slots, token, fact.place, kept)
        return
    _no_longer_awaited(slots, token, fact.place)
    _forget(slots, token, fact.place)


def expired(state: ExecutionState, slots: SlotSpace, fact: CallbackExpired) -> None:
    """Fold the end of a wait without an answer; an answer that comes later is too late."""
    token = state.tokens[fact.run]
    _no_longer_awaited(slots, token, fact.place)
    _keep(slots, token, fact.place, {"over": fact.serial + 1})


def _keep(slots: SlotSpace, token: Token, place: str, value: dict[str, Any]) -> None:
    """Set the slot of a place; its token counts it, so that it goes with the token."""
    token.callbacks += slots.get((SCOPE, place), MISSING) is MISSING
    slots[(SCOPE, place)] = value


def _forget(slots: SlotSpace, token: Token, place: str) -> None:
    """Drop the slot of a place, if there is one."""
    if slots.get((SCOPE, place), MISSING) is not MISSING:
        token.callbacks -= 1
        slots.pop((SCOPE, place), None)


def _no_longer_awaited(slots: SlotSpace, token: Token, place: str) -> None:
    slot = slots.get((SCOPE, place), MISSING)
    token.awaits -= 1
    token.unbounded -= slot.get("until") is None
    token.serial = -1


FOLDS: dict[type, Callable[[ExecutionState, SlotSpace, Any], None]] = {
    WaitStarted: rests,
    CallbackAwaited: awaited,
    CallbackReceived: received,
    CallbackExpired: expired,
}
