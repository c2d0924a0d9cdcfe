"""How much work something is, counted: a busy machine, or a process with much to collect, changes no figure."""

from __future__ import annotations

import cProfile
from collections.abc import Callable


def calls(work: Callable[[], object]) -> int:
    """How many functions ``work`` calls, those of C included."""
    profile = cProfile.Profile(subcalls=False)
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())
