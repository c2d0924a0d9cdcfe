"""What calls have used up of a process that executions share.

A call finds at least half of what the first one has left, so that none fails for what others keep. Where no call should notice others,
it finds nearly what the first one found.
"""

from __future__ import annotations

import _thread
import math
import os
import resource
import sys
from _operator import gt
from contextlib import suppress

STATM_BYTES = 64
PAGE = resource.getpagesize()
NO_FILE = -1
HALF = 1 / 2
LITTLE = 1 / 16


class Used:
    """Looked at after each call. ``share``: how much of the room calls may use up."""

    def __init__(self, share: float = HALF) -> None:
        self._share = share
        self._memory = NO_FILE
        """Shows how much address space there is; it stays open, as a look should cost little."""
        self._places: tuple[str, ...] = ()
        """Folders that are gone with the process."""
        self._most: list[float] = []

    def is_too_much(self) -> bool:
        """Report whether more than the share is used up of anything that there was at first.

        The first look notes what that is. When a look fails, there is no room for one.
        """
        try:
            if not self._most:
                self._begin()
            return any(map(gt, self._look(), self._most))
        except (OSError, MemoryError):
            return True

    def _begin(self) -> None:
        limits = [_limit(resource.RLIMIT_NOFILE), _limit(resource.RLIMIT_NPROC)]
        if sys.platform == "linux":
            from .namespaces import SCRATCH

            with suppress(FileNotFoundError):
                self._memory = os.open("/proc/self/statm", os.O_RDONLY)
                limits.append(_limit(resource.RLIMIT_AS))
            self._places = tuple(filter(os.path.isdir, SCRATCH))
            for place in self._places:
                about = os.statvfs(place)
                limits += [about.f_blocks, about.f_files]
        self._most = [
            used + (limit - used) * self._share for used, limit in zip(self._look(), limits, strict=True)
        ]

    def _look(self) -> list[int]:
        """Return what is used of each thing. Raises OSError."""
        free = os.dup(0)  # the lowest number that is free
        os.close(free)
        found = [free, _thread._count()]
        if self._memory != NO_FILE:
            found.append(int(os.pread(self._memory, STATM_BYTES, 0).split(None, 1)[0]) * PAGE)
        for place in self._places:
            about = os.statvfs(place)
            found += [about.f_blocks - about.f_bfree, about.f_files - about.f_ffree]
        return found


def _limit(name: int) -> float:
    soft = resource.getrlimit(name)[0]
    return math.inf if soft == resource.RLIM_INFINITY else soft
