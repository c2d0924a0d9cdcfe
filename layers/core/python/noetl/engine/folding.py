"""What folds of facts share: slots as they need them, and errors as slots hold them."""

from __future__ import annotations

from typing import Any, Protocol, cast


class SlotSpace(Protocol):
    """Slots as folding needs them: a plain dict, or the overlay of a decision."""

    def get(self, key: tuple[str, str], default: Any, /) -> Any: ...

    def __setitem__(self, key: tuple[str, str], value: Any, /) -> None: ...

    def pop(self, key: tuple[str, str], default: Any, /) -> Any: ...


class Droppable(SlotSpace, Protocol):
    """Slots that know how to forget a scope without having read it."""

    def drop_scope(self, scope: str) -> None: ...


def drop_scope(slots: SlotSpace, scope: str) -> None:
    """Forget every slot of ``scope``."""
    if not isinstance(slots, dict):
        cast(Droppable, slots).drop_scope(scope)
        return
    for key in [key for key in slots if key[0] == scope]:
        del slots[key]


def error_view(error: Any) -> dict[str, Any]:
    """An ErrorInfo as templates and slots see it."""
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
