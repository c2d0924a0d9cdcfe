"""Locks between steps (``spec.mutex``), held from ``step.enter`` to the end of a token.

Nothing releases a lock: it is free when no live token holds it, however the token ended. A run that finds it taken is parked with its place
in the queue.
"""

from __future__ import annotations

from typing import Any

from noetl.domain.errors import TemplateError
from noetl.domain.sizes.table import LOCK_NAME
from noetl.domain.state import WAITING, Token
from noetl.dsl.program import Step
from noetl.engine.decision import Decider
from noetl.templating.access import describe

LONGEST = LOCK_NAME.value
"""Characters of a lock's name: it lives in the execution's state."""


def lock_of(d: Decider, step: Step, token: Token, args: dict[str, Any]) -> str:
    """Return the lock that a run of ``step`` needs; empty when none.

    A token in the queue keeps the name it came with. Raises TemplateError(code="template_type") for what is no name.
    """
    if step.mutex is None or token.lock:
        return token.lock
    value = d.whole(step.mutex, d.scope(token.run, args=args))
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise TemplateError(
            f"spec.mutex of step {step.name} is not a name but {describe(value)}",
            code="template_type",
            hint="give text, such as a key the runs share",
            details=_where(step),
        )
    if len(value) > LONGEST:
        raise TemplateError(
            f"spec.mutex of step {step.name} gave a name of {len(value)} characters: {value[:40]!r}…",
            code="template_type",
            hint=f"a lock's name has up to {LONGEST}",
            details=_where(step),
        )
    return value


def _where(step: Step) -> dict[str, int]:
    pos = getattr(step.mutex, "pos", step.pos)
    return {"line": pos.line, "column": pos.column}


def ahead_of(d: Decider, lock: str, token: Token) -> Token | None:
    """Return the token that holds ``lock``, or waits for it before ``token``.

    None when it is ``token``'s turn (or there is no lock).
    """
    if not lock:
        return None
    named = [one for one in d.state.tokens.values() if one.lock == lock and one.run != token.run]
    holder = next((one for one in named if one.phase not in WAITING), None)
    if holder is not None:
        return holder
    before = [one for one in named if not token.lock or _turn(one) < _turn(token)]
    return min(before, key=_turn, default=None)


def last_place(d: Decider, lock: str) -> int:
    """Return the place of the run that joins the queue now."""
    return 1 + max((token.place for token in d.state.tokens.values() if token.lock == lock), default=0)


def _turn(token: Token) -> tuple[int, int]:
    return token.place, token.run


def next_in_line(d: Decider) -> Token | None:
    """Return the run that has waited longest for a lock that is free now."""
    held = {token.lock for token in d.state.tokens.values() if token.lock and token.phase not in WAITING}
    waiting = (token for token in d.state.tokens.values() if token.phase == "parked" and token.lock)
    free = [token for token in waiting if token.lock not in held]
    return min(free, key=_turn, default=None)
