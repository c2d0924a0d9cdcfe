"""How much a task has written to its folder, and the end of one that writes too much."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

from noetl.domain.errors import TaskError

LOOK_SECONDS = 0.5
BLOCK = 512
LEAST = 4096
"""Bytes that a file counts, however small: it takes an inode."""


class DiskUse:
    """Looks at a folder now and then while its task runs."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._next = 0.0

    def refuse_full(self, what: str) -> None:
        """Stop a task whose folder is full.

        Raises TaskError(kind="storage_quota", code="disk_limit"); ``what`` ("the code") is what was stopped.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        used = folder_bytes(self._folder, self._limit)
        if used is None:
            raise TaskError(
                f"{what} made folders deeper than a path may be, where its files cannot be counted, and was stopped",
                kind="storage_quota",
                code="disk_limit",
                hint="keep the paths of its folders shorter than 4,096 bytes",
            )
        if used > self._limit:
            raise TaskError(
                f"{what} wrote more than {self._limit} bytes to its folder and was stopped",
                kind="storage_quota",
                code="disk_limit",
                hint="keep less at a time and in fewer files, write large results as streams, or raise NOETL_TASK_DISK_MB",
            )


def disk_fits(folder: Path, limit: int) -> bool:
    """Report whether ``folder`` can be measured and has at most ``limit`` bytes."""
    used = folder_bytes(folder, limit)
    return used is not None and used <= limit


def folder_bytes(folder: Path, enough: int) -> int | None:
    """Measure the room of ``folder`` on the disk, no further than just above ``enough``.

    Every file and folder counts as a block at least: a disk has only so many. None: there are folders too deep to look into, which
    could hold anything.
    """
    total = 0
    left = [str(folder)]
    while left and total <= enough:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    about = entry.stat(follow_symlinks=False)
                    total += max(about.st_blocks * BLOCK, LEAST)
                    if stat.S_ISDIR(about.st_mode):
                        left.append(entry.path)
                    if total > enough:
                        break
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return None
            continue  # it went away, or the task has closed it
    return total
