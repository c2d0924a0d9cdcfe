"""A quick check that a task is still one process, after each of its calls (Linux)."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from noetl.system_calls import short_calls

ALONE = 3
"""Links of a process's folder of threads while it has one."""
MOST_BYTES = 64


class LoneProcessCheck:
    """A check through files of ``/proc`` that stay open.

    It takes three system calls, where a list of all processes takes twenty.
    """

    def __init__(self, root: int) -> None:
        """Watch the task below ``root``.

        ``root`` is a process with one thread. Its one child is the task's process, and it gets the task's orphans.
        """
        self._root = root
        self._files: tuple[int, int, int] | None = None
        self._children = b""
        self._closed = False
        self._lock = threading.Lock()
        """Of the files: the thread of the last call may look while another one ends the task."""
        self._seen = short_calls.Buffer(MOST_BYTES)

    def is_alone(self) -> bool:
        """Report whether the task is certainly one process with one thread.

        False: it may not be, or this system does not show it.
        """
        with self._lock:
            if self._closed:
                return False  # files that were opened now would stay open
            try:
                if self._files is None:
                    self._files = self._open()
                of_root, threads, of_task = self._files
                return (
                    self._seen.read_at(of_root) == self._children
                    and short_calls.links(threads) == ALONE
                    and self._seen.read_at(of_task) == b""
                )
            except (OSError, ValueError):
                return False

    def close(self) -> None:
        """Close the files; later checks report False."""
        with self._lock:
            self._closed = True
            for file in self._files or ():
                os.close(file)
            self._files = None

    def _open(self) -> tuple[int, int, int]:
        """Open the files that show the root's children, and the task's threads and children.

        Raises OSError; ValueError when it has company.
        """
        opened: list[int] = []
        try:
            opened.append(_open(f"/proc/{self._root}/task/{self._root}/children", os.O_RDONLY))
            self._children = os.pread(opened[0], MOST_BYTES, 0)
            task = int(self._children)
            opened.append(_open(f"/proc/{task}/task", os.O_PATH | os.O_DIRECTORY))
            opened.append(_open(f"/proc/{task}/task/{task}/children", os.O_RDONLY))
        except BaseException:
            for file in opened:
                with suppress(OSError):
                    os.close(file)
            raise
        of_root, threads, of_task = opened
        return of_root, threads, of_task


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC)
