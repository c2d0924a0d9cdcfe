"""What this machine is short of, measured.

It serves failures that name no reason, or a wrong one.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from noetl.domain.shortages import DISK, FILE_SIZE, MEMORY, Shortage

DISK_BYTES = 64 * 1024
"""Less than that is a full disk: no log, and no lock file, can be written."""
SEGMENT_BYTES = 16 * 1024 * 1024
"""The size of a file of Postgres's write-ahead log: no server can do with a smaller limit for long."""
SERVER_BYTES = 72 * 1024 * 1024
"""The buffers that a server shares, and the least of a program beside them."""
MARGIN_BYTES = 24 * 1024 * 1024
"""A process that came so close to its limit was refused memory: a library of that size could not be loaded."""


def is_memory_too_small() -> bool:
    """Whether the limit of the address space rules a server out.

    It is asked before anything is loaded: the interpreter may wait forever for a module whose loading a lack of memory has ended.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return limit != resource.RLIM_INFINITY and limit < SERVER_BYTES


def room_shortage(folder: Path) -> Shortage | None:
    """Return what keeps a server from writing into ``folder``, as far as it can be measured."""
    largest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if largest != resource.RLIM_INFINITY and largest < SEGMENT_BYTES:
        return FILE_SIZE
    try:
        room = os.statvfs(folder)
    except OSError:
        return None
    has_no_names = room.f_files > 0 and room.f_favail == 0
    return DISK if room.f_bavail * room.f_frsize < DISK_BYTES or has_no_names else None


def memory_shortage() -> Shortage | None:
    """Return MEMORY when this process has come close to the limit of its address space.

    The interpreter then raises errors of any kind, a SyntaxError in a correct file too.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    most = next((line.split()[1] for line in status.splitlines() if line.startswith("VmPeak:")), "0")
    return MEMORY if int(most) * 1024 + MARGIN_BYTES > limit else None
