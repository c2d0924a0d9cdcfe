"""The order of a process, as a file or pipe (see ``noetl_guest.order``).

The process reads it once, before it drops any right.
"""

from __future__ import annotations

import marshal
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any


def as_bytes(order: Mapping[str, Any]) -> bytes:
    """Encode ``order`` as the other process reads it."""
    return marshal.dumps(dict(order))


def as_file(order: Mapping[str, Any]) -> int:
    """Open a descriptor from which ``order`` is read; it is in no folder.

    Raises OSError.
    """
    if sys.platform == "linux":
        order_file = os.memfd_create("noetl-order")
    else:
        with tempfile.TemporaryFile() as file:
            order_file = os.dup(file.fileno())
    try:
        with open(order_file, "wb", closefd=False) as file:
            file.write(as_bytes(order))
        os.lseek(order_file, 0, os.SEEK_SET)
    except BaseException:
        os.close(order_file)
        raise
    return order_file
