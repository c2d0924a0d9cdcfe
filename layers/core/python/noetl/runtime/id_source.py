"""Where new ids come from: the clock and chance, which are arguments everywhere below."""

from __future__ import annotations

import os
import secrets
import socket
import time

from noetl.domain import ids


def random_bits() -> int:
    """The random part of an id."""
    return secrets.randbits(ids.RANDOM_BITS)


def new_id() -> int:
    """A time-ordered id of now."""
    return ids.execution_id(time.time_ns() // 1_000_000, random_bits())


def change_name() -> str:
    """The id of an event from outside."""
    return f"ext:{secrets.token_hex(8)}"


def process_name() -> str:
    """What this process, or one of its workers, is called in leases: of no other, ever."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
