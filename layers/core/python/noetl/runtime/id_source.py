"""The source of new ids from clock and randomness, which inner packages get as arguments."""

from __future__ import annotations

import os
import secrets
import socket
import time

from noetl.domain import ids


def random_bits() -> int:
    """Return the random part of an id."""
    return secrets.randbits(ids.RANDOM_BITS)


def new_id() -> int:
    """Return a new id, ordered by the present time."""
    return ids.execution_id(time.time_ns() // 1_000_000, random_bits())


def change_name() -> str:
    """Return a new id for an event from outside."""
    return f"ext:{secrets.token_hex(8)}"


def process_name() -> str:
    """Return a unique name for this process, or one of its workers, in leases."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
