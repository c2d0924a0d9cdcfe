"""What calls have used up of a process that executions share.

A call finds at least half of what the first one has left, so that none fails for what others keep.
"""

from __future__ import annotations

import _thread
import os
import resource
import sys

STATM_BYTES = 64
PAGE = resource.getpagesize()
NO_FILE = -1


class Used:
    """Looked at after each call."""

    def __init__(self) -> None:
        self._memory = NO_FILE
        """Shows how much address space there is; it stays open, as a look should cost little."""
        self._most: tuple[float, ...] = ()

    def is_half(self) -> bool:
        """Report whether more than half is used up of anything that the first call left.

        The first time it notes what that is. When a look fails, there is no room for one.
        """
        try:
            if self._most:
                return any(used > most for (used, _), most in zip(self._look(), self._most, strict=True))
            if sys.platform == "linux":
                self._memory = os.open("/proc/self/statm", os.O_RDONLY)
            self._most = tuple((used + limit) / 2 for used, limit in self._look())
        except (OSError, MemoryError):
            return True
        return False

    def _look(self) -> list[tuple[int, float]]:
        """Return what is used of each thing, and how much of it there may be. Raises OSError."""
        free = os.dup(0)
        os.close(free)
        found = [
            (free, _limit(resource.RLIMIT_NOFILE)),  # the lowest number that is free
            (_thread._count(), _limit(resource.RLIMIT_NPROC)),
        ]
        if self._memory != NO_FILE:
            from .namespaces import SCRATCH

            pages = os.pread(self._memory, STATM_BYTES, 0).split(None, 1)[0]
            found.append((int(pages) * PAGE, _limit(resource.RLIMIT_AS)))
            for place in SCRATCH:
                about = os.statvfs(place)
                found.append((about.f_blocks - about.f_bfree, about.f_blocks))
                found.append((about.f_files - about.f_ffree, about.f_files))
        return found


def _limit(name: int) -> float:
    soft = resource.getrlimit(name)[0]
    return float("inf") if soft == resource.RLIM_INFINITY else soft
