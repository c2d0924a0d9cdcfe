"""The memory of all processes of a task together, and the end of a task that has too much.

The kernel bounds each process by itself. Processes of one task are looked at only while there is more than one, as they run.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from noetl.domain.errors import TaskError
from noetl.kinds.sandbox.noetl_guest.supervise import descendants

ALONE_SECONDS = 0.5
"""Between two looks at a task that has one process."""
TOGETHER_SECONDS = 0.1
"""Between two looks at one that has several."""
LOOKING_SHARE = 20
"""A look that took long is followed by a pause that is this many times as long, but no longer than ``MOST_SECONDS``."""
MOST_SECONDS = 1.0
CHUNK = 4096
KIB = 1024
MANY_FILES = 1024
"""Open files of all processes together, above which pipes and sockets count towards memory."""
PIPE_BYTES = 64 * KIB
SOCKET_BYTES = 208 * KIB
"""What one end may keep for the other: the kernel's own default for a buffer of a socket."""


class MemoryUse:
    """Looks at the processes of a task now and then while it runs (Linux)."""

    def __init__(self, root: int, own: int, limit: int) -> None:
        """Watch the memory of the task below ``root``.

        ``own``: how many processes below ``root`` there are before the task starts any; ``limit``: bytes, 0 for none.
        """
        self._root = root
        self._own = own
        self._limit = limit if sys.platform == "linux" else 0
        self._next = time.monotonic() + ALONE_SECONDS

    def refuse_full(self, what: str) -> None:
        """Stop a task that is out of memory.

        Raises TaskError(kind="storage_quota", code="out_of_memory"); ``what`` ("the code") is what was stopped.
        """
        began = time.monotonic()
        if not self._limit or began < self._next:
            return
        processes = processes_below(self._root, self._own)
        if len(processes) > self._own:
            processes = processes_below(self._root)
            if memory_exceeds(processes, self._limit):
                raise TaskError(
                    f"the processes of {what} had more than {self._limit} bytes of memory together and were stopped",
                    kind="storage_quota",
                    code="out_of_memory",
                    hint="start fewer processes, let each keep less, or raise NOETL_PYTHON_MEMORY_MB",
                )
            pause = TOGETHER_SECONDS
        else:
            pause = ALONE_SECONDS
        now = time.monotonic()
        self._next = now + min(max(pause, (now - began) * LOOKING_SHARE), MOST_SECONDS)


def processes_below(root: int, enough: int | None = None) -> list[int]:
    """List the processes below ``root``, with those that ended and were not reaped.

    It stops not much above ``enough``.

    A kernel without lists of children is asked for all processes, which takes ten times as long.
    """
    found: list[int] = []
    left = [root]
    while left and (enough is None or len(found) <= enough):
        tasks = f"/proc/{left.pop()}/task"
        try:
            children = [
                int(number)
                for task in os.listdir(tasks)  # noqa: PTH208  # it runs after each call, and paths take most of its time
                for number in _read(f"{tasks}/{task}/children").split()
            ]
        except FileNotFoundError:
            if not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):  # noqa: PTH110
                return descendants(root)
            continue
        except OSError:
            continue  # it has ended
        found += children
        left += children
    return found


def memory_exceeds(processes: list[int], limit: int) -> bool:
    """Report whether ``processes`` have more than ``limit`` bytes together.

    Their own sizes bound what they have and cost little to read. Only when these pass the limit are pages that
    several of them share divided among them.
    """
    buffers = _buffers(processes)
    if sum(map(_size, processes)) + buffers <= limit:
        return False
    total = buffers
    for pid in processes:
        total += _share(pid)
        if total > limit:
            return True
    return False


def _size(pid: int) -> int:
    """Return the bytes of memory and swap that a process has mapped, without files.

    It is 0 for a process that has ended.
    """
    about = _about(pid, "status")
    return sum(_kib(about, name) for name in (b"\nRssAnon:", b"\nRssShmem:", b"\nVmSwap:"))


def _share(pid: int) -> int:
    """Return a process's part of the memory, with shared pages divided.

    A process that cannot be looked into counts all of them.
    """
    about = _about(pid, "smaps_rollup")
    if b"\nPss_Anon:" not in about:  # or a kernel before 5.4
        return _size(pid)
    return sum(_kib(about, name) for name in (b"\nPss_Anon:", b"\nPss_Shmem:", b"\nSwapPss:"))


def _about(pid: int, name: str) -> bytes:
    try:
        return b"\n" + _read(f"/proc/{pid}/{name}")
    except OSError:
        return b""


def _kib(about: bytes, name: bytes) -> int:
    """Return the number behind ``name``, in bytes; 0 when it is not there."""
    words = about.partition(name)[2].split(None, 1)
    return int(words[0]) * KIB if words else 0


def _buffers(processes: list[int]) -> int:
    """Return the bytes that pipes and sockets of ``processes`` may keep in the kernel.

    It is 0 while they have few files open.

    What one process may open is bounded. One whose files cannot be listed counts a socket for each.
    """
    counts = [_count_files(pid) for pid in processes]
    if sum(counts) <= MANY_FILES:
        return 0
    kept: set[str] = set()
    unknown = 0
    for pid, count in zip(processes, counts, strict=True):
        try:
            kept |= _channels(pid)
        except PermissionError:
            unknown += count
        except OSError:
            continue  # it has ended
    pipes = sum(name.startswith("pipe:") for name in kept)
    return pipes * PIPE_BYTES + (len(kept) - pipes + unknown) * SOCKET_BYTES


def _count_files(pid: int) -> int:
    try:
        # A number since Linux 6.2; before it is 0, and nothing is counted.
        return os.stat(f"/proc/{pid}/fd").st_size  # noqa: PTH116
    except OSError:
        return 0


def _channels(pid: int) -> set[str]:
    """Name the pipes and sockets of a process, so that two processes' names can be compared.

    Raises OSError.
    """
    found = set()
    with os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                name = os.readlink(entry.path)  # noqa: PTH115
                if name.startswith(("pipe:", "socket:")):
                    found.add(name)
    return found


def _read(path: str) -> bytes:
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = chunk = os.read(source, CHUNK)
        while chunk:
            chunk = os.read(source, CHUNK)
            data += chunk
        return data
    finally:
        os.close(source)
