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

STATM_BYTES, STATUS_BYTES = 128, 4096
MAPPED, OWN = 0, 5
"""The numbers of ``/proc/self/statm`` that are looked at: pages of the address space, and those that the process may write to."""
PAGE = resource.getpagesize()
NO_FILE = -1
HALF = 1 / 2
LITTLE = 1 / 16
DEEP = 16 * 1024**2
"""Bytes that executions may leave to one another. Nested objects are freed one within the other: each level takes at least 16 bytes of a stack
of 8 MiB and 48 bytes of memory, so what is freed in the call of another execution may not be more.
"""
FULL = 64 * 1024**2
"""Bytes of free address space with which a library that is written in C may be missing. Python then keeps another one for good."""


class Used:
    """Looked at after each call. ``share``: how much of the room calls may use up.

    ``unseen``: no call may notice what others did.
    """

    def __init__(self, share: float = HALF, *, unseen: bool = False) -> None:
        self._share, self._unseen = share, unseen
        self._memory = self._status = NO_FILE
        """Show how much address space there is, and was; they stay open, as a look should cost little."""
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
        used = self._look()
        self._most = [one + (limit - one) * self._share for one, limit in zip(used, limits, strict=True)]
        if self._unseen and self._memory != NO_FILE:
            self._status = os.open("/proc/self/status", os.O_RDONLY)
            own, _ = self._look()[-2:]
            self._most += [own + DEEP, _limit(resource.RLIMIT_AS) - FULL]

    def _look(self) -> list[int]:
        """Return what is used of each thing. Raises OSError."""
        free = os.dup(0)  # the lowest number that is free
        os.close(free)
        found = [free, _thread._count()]
        pages = os.pread(self._memory, STATM_BYTES, 0).split() if self._memory != NO_FILE else ()
        if pages:
            found.append(int(pages[MAPPED]) * PAGE)
        for place in self._places:
            about = os.statvfs(place)
            found += [about.f_blocks - about.f_bfree, about.f_files - about.f_ffree]
        if self._status != NO_FILE:
            peak = os.pread(self._status, STATUS_BYTES, 0).partition(b"VmPeak:")[2]
            found += [int(pages[OWN]) * PAGE, int(peak.split(None, 1)[0]) * 1024]
        return found


def _limit(name: int) -> float:
    soft = resource.getrlimit(name)[0]
    return math.inf if soft == resource.RLIM_INFINITY else soft
