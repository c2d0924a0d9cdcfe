"""Detection of exhausted resources (disk, memory, processes, files) in errors and output."""

from __future__ import annotations

import errno
import re
from typing import NamedTuple


class Shortage(NamedTuple):
    """``reason`` completes "… failed: "; ``remedy`` is what to do about it on this machine.

    ``remote_remedy``: on the machine of a database, where that is another one. No library is needed for it: a machine that is short may
    be unable to load one.
    """

    reason: str
    remedy: str
    remote_remedy: str = "raise the limits of its Postgres, or end what else runs there"


DISK = Shortage(
    "the disk is full",
    "make room on the disk that holds it (`df -h` shows which is full)",
    "make room on its disk, or give it a larger one",
)
MEMORY = Shortage(
    "the system has no more memory",
    "raise the limit of this process (`ulimit -v`, or the container's memory), or end what else uses memory",
    "give it more memory, or end what else uses memory there",
)
PROCESSES = Shortage(
    "the system starts no more processes or threads",
    "raise the limit of this user (`ulimit -u`, or the container's limit of processes), or end what else runs",
)
FILES = Shortage(
    "no more files can be opened", "raise the limit of this process (`ulimit -n`), or end what else runs"
)
FILE_SIZE = Shortage(
    "a file may not become as large as it has to",
    "raise the limit of this process for the size of a file (`ulimit -f`, LimitFSIZE of a service)",
)
STARTS = Shortage(
    "the system starts no program: it has no more processes, or no more memory",
    "raise the limits of this user (`ulimit -u`, `ulimit -v`, or the container's), or end what else runs",
)
TEMPORARY = Shortage(
    "no folder for temporary files can be written",
    "make room in it (`df -h /tmp`), let this user write there, or name another one (TMPDIR)",
)
_NUMBERS = {
    errno.ENOSPC: DISK,
    errno.EDQUOT: DISK,
    errno.EFBIG: FILE_SIZE,
    errno.ENOMEM: MEMORY,
    errno.EAGAIN: PROCESSES,
    errno.EMFILE: FILES,
    errno.ENFILE: FILES,
}
_TEXTS = (
    (
        re.compile(r"No space left on device|Disk quota exceeded|wrote only \d+ of \d+ bytes", re.IGNORECASE),
        DISK,
    ),
    (re.compile(r"No usable temporary directory"), TEMPORARY),
    (re.compile(r"could not execute command [^\n]*Cannot allocate memory"), STARTS),
    (
        re.compile(r"could not fork|\bCannot fork|can't start new thread|Resource temporarily unavailable"),
        PROCESSES,
    ),
    (
        re.compile(
            r"Cannot allocate memory|out of memory|failed to map segment|\bMemoryError\b", re.IGNORECASE
        ),
        MEMORY,
    ),
    (re.compile(r"Too many open files|insufficient file descriptors"), FILES),
    (re.compile(r"File too large|SIGXFSZ"), FILE_SIZE),
)
_CHAIN = 8


def shortage_in(text: str) -> Shortage | None:
    """Return what the output of a program complains about."""
    return next((found for pattern, found in _TEXTS if pattern.search(text)), None)


def shortage(error: BaseException) -> Shortage | None:
    """Return what an exception, or what it was raised from, complains about."""
    seen: BaseException | None = error
    for _ in range(_CHAIN):
        if seen is None:
            return None
        if isinstance(seen, MemoryError):
            return MEMORY
        if isinstance(seen, OSError) and seen.errno in _NUMBERS:
            return _NUMBERS[seen.errno]
        if isinstance(seen, (OSError, RuntimeError, ImportError)) and (found := shortage_in(str(seen))):
            return found
        seen = seen.__cause__ or seen.__context__
    return None
