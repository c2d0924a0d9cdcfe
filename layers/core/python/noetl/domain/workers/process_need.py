"""How soon a process needs again what it keeps warm for an execution."""

from __future__ import annotations

from enum import IntEnum


class Need(IntEnum):
    """The greater it is, the longer the child of an execution is kept."""

    NONE = 0
    """Nothing of it happens in this process: it waits for the outside, for a moment, or for another process."""
    ELSEWHERE = 1
    """A command of it is ready or running here, in another pool."""
    SOON = 2
    """The engine decides what it does next."""
    NOW = 3
    """A command of it is ready or running in the pool that keeps the child."""
