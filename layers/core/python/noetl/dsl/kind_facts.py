"""Facts about kinds that may be unknown, or unusable where the compiler runs."""

from __future__ import annotations

from noetl.domain.errors import PlaybookError
from noetl.domain.kinds import KindLookup, KindSpec


def find_spec(kinds: KindLookup, name: str) -> KindSpec | None:
    """The kind's facts; None when there is no such kind or its module is not installed."""
    try:
        return kinds.spec(name)
    except (KeyError, PlaybookError):
        return None
