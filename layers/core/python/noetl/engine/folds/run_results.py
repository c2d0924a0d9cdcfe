"""The result of a step run: its own until it leaves the step, then the step's.

Two runs of one step can be in progress at once (``join: each``, a cycle with two tokens, an injected token). The result of a run is in
a slot of the scope ``run``, under its number, while its cases, its arcs and its compensation are decided; other runs cannot see it. When
the run leaves its step, the result is published under the step's name: the last run to leave wins.

Within one decision a run that is called and leaves writes the step's slot alone; the slot of the run is stored only for a run that
waits for tasks of a case entry.
"""

from __future__ import annotations

from typing import Any

from noetl.domain.patches.scope_patches import MISSING
from noetl.domain.state import Token
from noetl.engine.folds.slots import SlotSpace, error_view

RUN = "run"
STEP = "step"
SKIPPED: dict[str, Any] = {"status": "skipped", "data": None}


def envelope(status: str, data: Any, error: Any, labels: dict[str, Any]) -> dict[str, Any]:
    """Build what the slot of a result holds; absent keys mean null."""
    slot: dict[str, Any] = {"status": status, "data": data}
    if error is not None:
        slot["error"] = error_view(error)
    if labels:
        slot["labels"] = labels
    return slot


def give_result(slots: SlotSpace, token: Token, slot: dict[str, Any]) -> None:
    """Set the result that the run has so far."""
    slots[(RUN, str(token.run))] = slot
    token.own = True


def result_of(slots: SlotSpace, token: Token) -> dict[str, Any] | None:
    """Return the run's own result; None for a run that has none so far."""
    if not token.own:
        return None
    slot: dict[str, Any] = slots.get((RUN, str(token.run)), MISSING)
    return slot


def publish_result(slots: SlotSpace, token: Token) -> None:
    """Set the step's result to that of the run that leaves it; a run never called has none."""
    slot = result_of(slots, token)
    if slot is not None:
        slots[(STEP, token.step)] = slot


def forget_result(slots: SlotSpace, token: Token) -> None:
    """Drop the run's own result, because its token ends."""
    if token.own:
        slots.pop((RUN, str(token.run)), None)
