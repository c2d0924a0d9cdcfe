"""Descriptors sent to the processes that become tasks.

The kernel counts the descriptors that a user has sent and no process has received (``SCM_RIGHTS``). It refuses a sender once there
are more than it may have open files: ``ETOOMANYREFS``. Tasks run as the worker's user, so theirs count as well; those of a task that
has ended count for seconds. A task may have ``OPEN_FILES`` open, and a worker far more, so that no task stops a worker from sending.
"""

from __future__ import annotations

import array
import errno
import resource
import socket
import time
from collections.abc import Callable, Sequence
from functools import cache

WANTED_FILES = 8192
"""Open files of a worker, where its hard limit allows them. Some programs that it starts look at each possible descriptor: not more."""
ENOUGH_FILES = 4096
"""Several tasks that send at the same time pass their limit by 253 descriptors each."""
RETRY_SECONDS = 60.0
PAUSE_SECONDS = 0.05


@cache
def raise_limit() -> None:
    """Let this process have as many open files as it wants and may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(WANTED_FILES, may_open())
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def may_open() -> int:
    """Return the most open files that this process can get without more rights."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return WANTED_FILES if hard == resource.RLIM_INFINITY else hard


def send_descriptors(to: socket.socket, mode: str, descriptors: Sequence[int]) -> None:
    """Ask for a process in ``mode`` that gets these descriptors. Raises OSError."""
    rights = array.array("i", descriptors)
    to.sendmsg([mode[:1].encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def retry_sending(send: Callable[[], None]) -> None:
    """Call ``send`` again while the kernel has too many descriptors of this user in flight.

    Raises OSError.
    """
    until = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            return send()
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            if time.monotonic() > until:
                why = "too many descriptors of this user are in flight: raise the limit of open files (`noetl doctor`)"
                raise OSError(error.errno, why) from error
        time.sleep(PAUSE_SECONDS)
