"""Shared parts of the folds: slots as they need them, stored errors, and context changes."""

from __future__ import annotations

from typing import Any, Protocol, cast

from noetl.domain.callbacks import SCOPE, run_of
from noetl.domain.facts import facts as f
from noetl.domain.patches.scope_patches import MISSING, apply_patch
from noetl.domain.redrive import LOCAL
from noetl.domain.state import ExecutionState, Token


class SlotSpace(Protocol):
    """The slots that folding needs: a plain dict, or the overlay of a decision."""

    def get(self, key: tuple[str, str], default: Any, /) -> Any: ...

    def __setitem__(self, key: tuple[str, str], value: Any, /) -> None: ...

    def pop(self, key: tuple[str, str], default: Any, /) -> Any: ...


class Droppable(SlotSpace, Protocol):
    """Slots that can forget a scope, or the callbacks of a run, without having read them."""

    def drop_scope(self, scope: str) -> None: ...

    def drop_callbacks(self, run: int) -> None: ...


def drop_scope(slots: SlotSpace, scope: str) -> None:
    """Forget every slot of ``scope``."""
    if not isinstance(slots, dict):
        cast(Droppable, slots).drop_scope(scope)
        return
    for key in [key for key in slots if key[0] == scope]:
        del slots[key]


def drop_callbacks(slots: SlotSpace, token: Token) -> None:
    """Forget what is kept for callbacks of a run whose token ends."""
    if not token.callbacks:
        return
    if not isinstance(slots, dict):
        cast(Droppable, slots).drop_callbacks(token.run)
        return
    for key in [key for key in slots if key[0] == SCOPE and run_of(key[1]) == token.run]:
        del slots[key]


def error_view(error: Any) -> dict[str, Any]:
    """Convert an ErrorInfo to what templates and slots see."""
    return {
        "message": error.message,
        "kind": error.kind,
        "code": error.code,
        "status": error.status,
        "retryable": error.retryable,
        "hint": error.hint,
        "position": error.position,
        "details": error.details,
    }


def context_changed(state: ExecutionState, slots: SlotSpace, fact: f.ContextChanged) -> None:
    """Apply all patches or none: one that does not fit raises before anything is written."""
    changed: dict[tuple[str, str], Any] = {}
    for patch in fact.patches:
        if patch.scope == "step":
            key = ("args", str(fact.run))
            changed[key] = _local_changed(_now(slots, changed, key), patch)
        else:
            key = (patch.scope, patch.name)
            current = MISSING if patch.op in _FORGETS else _now(slots, changed, key)
            changed[key] = apply_patch(current, patch)
    for key, value in changed.items():
        if value is not MISSING:
            slots[key] = value
        elif slots.get(key, MISSING) is not MISSING:
            slots.pop(key, None)


_FORGETS = frozenset({"set", "replace", "unset"})
"""What makes a value without the one before, which is not read then."""


def _now(slots: SlotSpace, changed: dict[tuple[str, str], Any], key: tuple[str, str]) -> Any:
    return changed[key] if key in changed else slots.get(key, MISSING)


def _local_changed(args: Any, patch: Any) -> dict[str, Any]:
    """Write ``step.x``, which lives with its step run.

    It is kept beside the run's arguments, under a key of its own.
    """
    args = {} if args is MISSING or args is None else args
    local = dict(found) if isinstance(found := args.get(LOCAL), dict) else {}
    local[patch.name] = apply_patch(local.get(patch.name, MISSING), patch)
    return {**args, LOCAL: local}
