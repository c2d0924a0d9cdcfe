"""System calls that the standard library does not offer, by ctypes. Linux only."""

from __future__ import annotations

import ctypes
import os
from functools import cache, partial

TYPE_CHECKING = False
"""As checkers of types take it: ``typing`` costs more to import than all of a task's layers."""
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION_3 = 0x20080522
MOUNT_SETATTR = 442
AT_FDCWD = -100


_LONG, _TEXT = ctypes.c_ulong, ctypes.c_char_p
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "prctl": (ctypes.c_int, _LONG, _LONG, _LONG, _LONG),
    "capset": (_LONG, _LONG),
    "unshare": (ctypes.c_int,),
    "mount": (_TEXT, _TEXT, _TEXT, _LONG, _TEXT),
    "umount2": (_TEXT, ctypes.c_int),
    "pivot_root": (_TEXT, _TEXT),
    "syscall": (ctypes.c_long,) * 6,
    "syscall of a path": (ctypes.c_long, ctypes.c_int, _TEXT, ctypes.c_int, _LONG, _LONG),
}
"""Of functions that are called here, the name first; addresses are numbers. Made once: for what a child makes itself it copies many pages."""
_HEADER = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
_NO_CAPABILITIES = (ctypes.c_uint32 * 6)()
_ADMINISTRATION = (ctypes.c_uint32 * 6)(1 << 21, 1 << 21)
"""``CAP_SYS_ADMIN``, permitted and effective."""


@cache
def _function(name: str) -> Any:
    found = getattr(ctypes.CDLL(None, use_errno=True), name.partition(" ")[0])
    found.argtypes = _ARGUMENTS[name]
    return found


def call(function: str, *arguments: int | bytes | None) -> int:
    """Call a function of the C library. Raises OSError when it answers with less than 0."""
    answer: int = _function(function)(*arguments)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return answer


def prepare(function: str, *arguments: int) -> Callable[[], int]:
    """Prepare a call of the C library for the time soon after a fork.

    The call returns less than 0 where the kernel refuses it. Nothing is looked up or converted when it is made, so the process copies fewer
    pages.
    """
    found = getattr(ctypes.CDLL(None), function)
    found.restype = ctypes.c_long
    return partial(found, *map(ctypes.c_long, arguments))


def prctl(option: int, first: int = 0, second: int = 0) -> int:
    """Call ``prctl``. Raises OSError."""
    return call("prctl", option, first, second, 0, 0)


def give_up_capabilities() -> None:
    """Give up all capabilities of this process. Raises OSError."""
    call("capset", ctypes.addressof(_HEADER), ctypes.addressof(_NO_CAPABILITIES))


def prepare_to_give_up_capabilities() -> Callable[[], int]:
    return prepare("capset", ctypes.addressof(_HEADER), ctypes.addressof(_NO_CAPABILITIES))


def keep_administration() -> None:
    """Give up all capabilities but administration in this process's user namespace.

    Raises OSError.
    """
    call("capset", ctypes.addressof(_HEADER), ctypes.addressof(_ADMINISTRATION))


def give_up_bounds() -> None:
    """Drop all capabilities that a program could bring along, where this process may."""
    drop = _function("prctl")
    capability = 0
    while drop(PR_CAPBSET_DROP, capability, 0, 0, 0) >= 0:  # until the first that this kernel does not know
        capability += 1


def syscall(number: int, first: int, second: int, third: int, fourth: int = 0, fifth: int = 0) -> int:
    """Call the kernel by number. Raises OSError."""
    return call("syscall", number, first, second, third, fourth, fifth)


def change_mount(path: bytes, depth: int, attributes: int, size: int) -> int:
    """Call ``mount_setattr``.

    ``attributes``: the address of its structure. Raises OSError.
    """
    return call("syscall of a path", MOUNT_SETATTR, AT_FDCWD, path, depth, attributes, size)
