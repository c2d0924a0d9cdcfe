"""A filter of system calls, for what the other layers leave to a task.

It removes keys of the kernel, memory that no limit counts, a clock, and, where no mount namespace hides them, sockets of files.

The kernel keeps keys (tickets of Kerberos, of encrypted folders) for a user and for a session. A task inherits its worker's session, and
the user's keyring is found by its number in any namespace: so a task reads them, and leaves messages for other tasks there.

Memory that no process has mapped counts towards no limit of a task: files of ``memfd_create``, objects of System V, pages that ``vmsplice``
leaves in pipes, what ``bpf`` and ``io_uring`` keep in the kernel. Libraries that would use them take another way when the filter answers
that the kernel has no such call.

A process can ask for the processor time of any other one that it sees, and that of the first process of a cell reveals the tasks before.

Landlock does not look at ``connect`` to a path before its ABI 9, and the kernel asks for no more than the rights of the
user: the socket of a database would be open to every task. So a task cannot make such sockets. ``socketpair`` stays, for
connected pairs; pairs of datagrams can be connected again, and are refused. ``io_uring``, which passes a filter by, is refused anyway.
"""

from __future__ import annotations

import _socket
import ctypes
import errno
import os
import struct

from .kernel import PR_SET_SECCOMP, prctl

MODE_FILTER = 2
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000
NUMBER, ARCHITECTURE, FIRST, SECOND = 0, 4, 16, 24
"""Where ``struct seccomp_data`` has them; of arguments the lower half."""
OTHER_ABI = 0x40000000
"""Numbers of the x32 ABI begin there."""
KEYS = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}
"""``add_key``, ``request_key``, ``keyctl``."""
UNCOUNTED = {
    "x86_64": (319, 447, 29, 64, 68, 278, 321, 425),
    "aarch64": (279, 447, 194, 190, 186, 75, 280, 425),
}
"""``memfd_create``, ``memfd_secret``, ``shmget``, ``semget``, ``msgget``, ``vmsplice``, ``bpf``, ``io_uring_setup``."""
MACHINES = {
    "x86_64": (0xC000003E, 41, 53, KEYS["x86_64"] + UNCOUNTED["x86_64"], (222, 228, 229, 230)),
    "aarch64": (0xC00000B7, 198, 199, KEYS["aarch64"] + UNCOUNTED["aarch64"], (107, 113, 114, 115)),
}
"""AUDIT_ARCH, socket, socketpair; those that are always refused; timer_create, clock_gettime, clock_getres, clock_nanosleep."""
CLOCK_OF_FIRST, ANY_KIND_OF_CLOCK = ~1 << 3 & 0xFFFFFFFF, 0xFFFFFFF8
"""The clock of the process with the number 1, and all bits but those that say which of its clocks."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def is_known() -> bool:
    """Return whether this module knows the numbers of this machine's system calls."""
    return os.uname().machine in MACHINES


def filter_calls(*, sockets: bool) -> None:
    """Filter the system calls of this process and all that it starts, from now on.

    It needs ``no_new_privs``. Raises OSError.

    ``sockets``: refuse those of files, too; ``KEYS``, ``UNCOUNTED`` and the clock of the process with the number 1 are always refused.
    """
    code = program(*MACHINES[os.uname().machine], sockets=sockets)
    found = _Program(len(code) // 8, code)
    prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.addressof(found))


def program(
    architecture: int,
    socket_number: int,
    pair_number: int,
    never: tuple[int, ...],
    clocks: tuple[int, ...],
    *,
    sockets: bool,
) -> bytes:
    """Write the filter as the kernel reads it.

    Jumps count the instructions that are passed over.
    """
    refused = RETURN, 0, 0, ERROR | errno.EACCES
    unknown = RETURN, 0, 0, ERROR | errno.ENOSYS
    allowed = RETURN, 0, 0, ALLOW
    no_clock = RETURN, 0, 0, ERROR | errno.EINVAL
    steps = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, architecture),
        unknown,
        (LOAD, 0, 0, NUMBER),
        (JUMP_AT_LEAST, 0, 1, OTHER_ABI),
        unknown,
    ]
    for number in never:
        steps += [(JUMP_EQUAL, 0, 1, number), unknown]
    for place, number in enumerate(clocks):
        steps.append((JUMP_EQUAL, len(clocks) - 1 - place, int(number == clocks[-1]) * 5, number))
    steps += [
        (LOAD, 0, 0, FIRST),
        (AND, 0, 0, ANY_KIND_OF_CLOCK),
        (JUMP_EQUAL, 0, 1, CLOCK_OF_FIRST),
        no_clock,
        allowed,
    ]
    if sockets:
        steps += [
            (JUMP_EQUAL, 0, 4, socket_number),
            (LOAD, 0, 0, FIRST),
            (JUMP_EQUAL, 0, 1, _socket.AF_UNIX),
            refused,
            allowed,
            (JUMP_EQUAL, 0, 4, pair_number),
            (LOAD, 0, 0, SECOND),
            (AND, 0, 0, 0xF),
            (JUMP_EQUAL, 0, 1, _socket.SOCK_DGRAM),
            refused,
        ]
    steps.append(allowed)
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
