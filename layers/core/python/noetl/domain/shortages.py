"""Detection of exhausted resources (disk, memory, processes, files) in errors and output."""

from __future__ import annotations

import errno
import re

import msgspec


class Shortage(msgspec.Struct, frozen=True):
    """``reason`` completes "… failed: "; ``remedy`` is what to do about it."""

    reason: str
    remedy: str


DISK = Shortage("the disk is full", "make room on the disk that holds it (`df -h` shows which is full)")
MEMORY = Shortage(
    "the system has no more memory",
    "raise the limit of this process (`ulimit -v`, or the container's memory), or end what else uses memory",
)
PROCESSES = Shortage(
    "the system starts no more processes or threads",
    "raise the limit of this user (`ulimit -u`, or the container's limit of processes), or end what else runs",
)
FILES = Shortage(
    "no more files can be opened", "raise the limit of this process (`ulimit -n`), or end what else runs"
)
_NUMBERS = {
    errno.ENOSPC: DISK,
    errno.EDQUOT: DISK,
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
    (re.compile(r"could not fork|can't start new thread|Resource temporarily unavailable"), PROCESSES),
    (re.compile(r"Cannot allocate memory|out of memory|failed to map segment", re.IGNORECASE), MEMORY),
    (re.compile(r"Too many open files"), FILES),
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
        if isinstance(seen, (OSError, RuntimeError)) and (found := shortage_in(str(seen))):
            return found
        seen = seen.__cause__ or seen.__context__
    return None
