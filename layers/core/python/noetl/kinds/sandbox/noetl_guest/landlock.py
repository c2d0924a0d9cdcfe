"""Landlock: the files that this process and its children may open, and whom they signal.

The numbers are those of ``linux/landlock.h``. Rights that a kernel does not know are left out, as its ABI number says.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterable

from .kernel import prepare, syscall

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG = 1
RULE_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_DEVICE, MAKE_BLOCK, MAKE_SOCKET, MAKE_PIPE, MAKE_LINK = 1 << 6, 1 << 11, 1 << 9, 1 << 10, 1 << 12
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
MAKE_OTHERS = MAKE_DEVICE | MAKE_BLOCK | MAKE_SOCKET | MAKE_PIPE | MAKE_LINK
"""What is neither a file nor a folder.

A process outside that reads a folder which tasks share could be led astray by a link, or wait for a pipe.
"""
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1 << 0, 1 << 1
RIGHTS_OF_ABI = ((5, 16), (3, 15), (2, 14), (1, 13))
"""From which ABI on how many rights are known."""
SCOPES_SINCE = 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi_version() -> int:
    """Return the kernel's Landlock ABI; 0 when it has none or has it turned off."""
    try:
        return syscall(CREATE_RULESET, 0, 0, VERSION_FLAG)
    except OSError:
        return 0


def make_ruleset(abi: int, read: Iterable[str], write: Iterable[str], shared: Iterable[str] = ()) -> int:
    """Make a ruleset that permits files below the given paths; return its descriptor.

    In ``shared`` only files and folders are made: no links, pipes, sockets and devices, nor anything that was made in ``write``.

    A path that does not exist is skipped. From ABI 6 on, a process that enters the ruleset can also signal only processes that it starts,
    and reach only its own abstract sockets. Raises OSError.
    """
    handled = (1 << next(count for since, count in RIGHTS_OF_ABI if abi >= since)) - 1
    scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if abi >= SCOPES_SINCE else 0
    attributes = _Ruleset(handled, 0, scoped)
    # An older kernel refuses a structure that is longer than its own, unless what it does not know is 0.
    ruleset = syscall(CREATE_RULESET, ctypes.addressof(attributes), ctypes.sizeof(attributes), 0)
    try:
        # What is moved must not get rights by it. So a right of each that the other lacks keeps a folder, with the links in it, where it
        # was made. No task makes a block device anyway: that takes a privilege.
        own, given = handled & ~MAKE_BLOCK, handled & ~MAKE_OTHERS | MAKE_BLOCK
        for paths, rights in ((read, READ), (write, own), (shared, given)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def enter(ruleset: int) -> None:
    """Restrict this process to what ``ruleset`` permits, and close the ruleset.

    A process that has the descriptor could add rules. It needs ``no_new_privs``. Raises OSError.
    """
    try:
        syscall(RESTRICT_SELF, ruleset, 0, 0)
    finally:
        os.close(ruleset)


def prepare_to_enter(ruleset: int) -> Callable[[], int]:
    """Prepare ``enter`` before a fork; the caller closes ``ruleset``."""
    return prepare("syscall", RESTRICT_SELF, ruleset, 0, 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
            return
        raise
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_FILES
        rule = _PathBeneath(rights, place)
        syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.addressof(rule))
    finally:
        os.close(place)
