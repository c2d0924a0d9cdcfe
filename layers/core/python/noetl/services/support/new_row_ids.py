"""Random ids of new rows, 22 bits in a millisecond, drawn again when one is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from noetl.domain.errors import ConflictError
from noetl.ports.new_ids import IdTakenError

Kept = TypeVar("Kept")
TRIES = 5
"""Ids that are drawn before giving up: chance never needs so many."""


def busy() -> ConflictError:
    """Return the error of one for whom every id that was drawn is taken."""
    return ConflictError("too many ids are drawn in this millisecond", code="busy", retryable=True)


def with_new_id(new_id: Callable[[], int], keep: Callable[[int], Kept]) -> Kept:
    """Call ``keep`` with a new id, and with another one when the store has that id already.

    Raises ConflictError(code="busy").
    """
    for _ in range(TRIES):
        try:
            return keep(new_id())
        except IdTakenError:
            continue
    raise busy()
