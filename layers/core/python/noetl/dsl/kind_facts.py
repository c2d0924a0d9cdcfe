"""Facts about kinds that may be unknown, or unusable where the compiler runs."""

from __future__ import annotations

from noetl.domain.errors import PlaybookError
from noetl.domain.kinds import KindLookup, KindSpec


def find_spec(kinds: KindLookup, name: str) -> KindSpec | None:
    """Return the kind's facts; None for an unknown kind or a missing module."""
    try:
        return kinds.spec(name)
    except (KeyError, PlaybookError):
        return None
