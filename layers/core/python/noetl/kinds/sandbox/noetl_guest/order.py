"""What a worker tells a process before that gives anything up: one file that is read once, and descriptors by number."""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False
"""As checkers of types take it: ``typing`` costs more to import than all of a task's layers."""
if TYPE_CHECKING:
    from typing import Any


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
    """Take the order, the lifeline and the task's own descriptors from the arguments behind the guest's folder."""
    lifeline, order, *own = map(int, sys.argv[2:])
    sys.path.pop(0)
    return read_order(order), lifeline, own
