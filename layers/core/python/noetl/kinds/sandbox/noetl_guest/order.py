"""The worker's order to a process: one file that it reads once, and descriptors.

The process reads it before it drops any right.
"""

from __future__ import annotations

import _socket
import array
import marshal
import os
import sys

TYPE_CHECKING = False
"""As checkers of types take it: ``typing`` costs more to import than all of a task's layers."""
if TYPE_CHECKING:
    from typing import Any

MOST_DESCRIPTORS = 16


def read_order(source: int) -> Any:
    """Read and close ``source``. It takes no library: both sides are the same interpreter.

    Raises SystemExit when there is no order: the worker gave this process up before it knew of it.
    """
    parts = []
    while part := os.read(source, 1 << 20):
        parts.append(part)
    os.close(source)
    if not parts:
        sys.exit(1)
    return marshal.loads(b"".join(parts))


def from_arguments() -> tuple[Any, int, list[int]]:
    """Read the order, the lifeline and the task's own descriptors from the arguments.

    They are behind the guest's folder.
    """
    lifeline, order, *own = map(int, sys.argv[2:])
    sys.path.pop(0)
    return read_order(order), lifeline, own


def receive(worker: _socket.socket) -> tuple[bytes, list[int]]:
    """Receive the next message: the request (empty: no more will come), and its descriptors."""
    found: array.array[int] = array.array("i")
    size = _socket.CMSG_LEN(MOST_DESCRIPTORS * found.itemsize)
    try:
        mode, parts, _, _ = worker.recvmsg(1, size, _socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return b"", []
    for level, kind, data in parts:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return mode, list(found)
