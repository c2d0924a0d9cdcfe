"""Where new ids come from: the clock and chance, which are arguments everywhere below."""

from __future__ import annotations

import secrets
import time

from noetl.domain import ids


def random_bits() -> int:
    """The random part of an id."""
    return secrets.randbits(ids.RANDOM_BITS)


def new_id() -> int:
    """A time-ordered id of now."""
    return ids.execution_id(time.time_ns() // 1_000_000, random_bits())
