"""A process gives up what the code it is about to run must not have. There is no way back.

Limits on memory, file size, open files and core dumps. On Linux also: no new privileges, no capabilities (a
root user keeps its files but can no longer look into other processes), and memory that processes of the same
user cannot read.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION_3 = 0x20080522
OPEN_FILES = 1024


def confine(memory: int, file_size: int) -> None:
    """``memory``: bytes of address space, 0 for no limit; ``file_size``: bytes one file may reach.

    Raises OSError when the system refuses to take something away: the code must not run then.
    """
    os.umask(0o077)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, file_size)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    if sys.platform == "linux":
        _drop_privileges()
        if memory:
            _limit(resource.RLIMIT_AS, memory)


def _limit(what: int, wanted: int) -> None:
    hard = resource.getrlimit(what)[1]
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (value, value))


def _drop_privileges() -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def require(answer: int, what: str) -> None:
        if answer != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")

    require(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    capability = 0
    while libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    require(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    require(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
