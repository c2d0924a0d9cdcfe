"""System calls that the standard library does not offer, by ctypes. Linux only."""

from __future__ import annotations

import ctypes
import os
from functools import cache

TYPE_CHECKING = False
"""As checkers of types take it: ``typing`` costs more to import than all of a task's layers."""
if TYPE_CHECKING:
    from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION_3 = 0x20080522


@cache
def libc() -> Any:
    """The C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: Any) -> int:
    """Call a function of the C library. Raises OSError when it answers with less than 0."""
    answer: int = getattr(libc(), function)(*arguments)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return answer


def prctl(option: int, first: Any = 0, second: Any = 0) -> int:
    """Raises OSError."""
    as_long = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in (first, second)]
    return call("prctl", option, *as_long, ctypes.c_ulong(0), ctypes.c_ulong(0))


def give_up_capabilities() -> None:
    """All that this process has. Raises OSError."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    call("capset", header, (ctypes.c_uint32 * 6)())


def every_prctl(option: int) -> None:
    """Call it with 0, 1, 2 … until the kernel refuses one."""
    function = _quick_prctl()
    value = 0
    while function(option, value, 0, 0, 0) >= 0:
        value += 1


@cache
def _quick_prctl() -> Any:
    """It turns plain numbers over itself: a task is started with dozens of them."""
    long = ctypes.c_ulong
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, long, long, long, long)(("prctl", libc()))


def syscall(number: int, *arguments: Any) -> int:
    """Raises OSError."""
    as_long = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return call("syscall", ctypes.c_long(number), *as_long)
