"""Unreadable rows: one definition, so that a bad row affects only itself.

A row is unreadable when its document has another shape than this version knows: it was damaged, or a newer version wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from noetl.domain.errors import ConflictError

T = TypeVar("T")
SHOWN = 300
"""Most characters of a reason."""
_CAUSES = (ValueError, TypeError, LookupError, AttributeError, RecursionError, AssertionError)
"""What decoding raises for a document of another shape."""


class Unreadable(msgspec.Struct, frozen=True):
    """Which row cannot be read, and why. ``row``: its table and key, as messages show them."""

    row: str
    why: str

    def __str__(self) -> str:
        return f"{self.row} cannot be read: {self.why}"


class UnreadableRowError(ConflictError):
    """A row that a request needs cannot be read."""

    default_code = "unreadable_row"


def attempt(read: Callable[[], T], row: str) -> T | Unreadable:
    """Read a row, or say why it cannot be read."""
    try:
        return read()
    except _CAUSES as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        return Unreadable(row, reason[:SHOWN].encode("utf-8", "backslashreplace").decode())


def demand(read: Callable[[], T], row: str) -> T:
    """Read a row that is needed. Raises UnreadableRowError."""
    found = attempt(read, row)
    if isinstance(found, Unreadable):
        raise UnreadableRowError(
            str(found), hint="it was damaged, or a newer version wrote it: docs/operations.md says what to do"
        )
    return found
