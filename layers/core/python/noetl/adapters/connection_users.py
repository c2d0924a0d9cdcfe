"""The user of this machine whose process has the other end of a connection (Linux)."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

TABLES = {4: "/proc/net/tcp", 6: "/proc/net/tcp6"}
WORD = 4
"""Bytes of an address that the kernel prints as one number, in the order of this machine."""

Place = tuple[str, int]


def user_of(client: Place | None, server: Place | None) -> int | None:
    """Return the user id of the process at the ``client`` end of a connection.

    None: it is on another machine, or this system does not show it.
    """
    if client is None or server is None:
        return None
    try:
        address = ipaddress.ip_address(client[0])
        wanted = _shown(client), _shown(server)
        with Path(TABLES[address.version]).open() as table:
            next(table)
            for line in table:
                fields = line.split()
                if (fields[1], fields[2]) == wanted:
                    return int(fields[7])
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return None


def _shown(place: Place) -> str:
    """Show an address and a port as the kernel's table does. Raises ValueError."""
    packed = ipaddress.ip_address(place[0]).packed
    words = (packed[at : at + WORD] for at in range(0, len(packed), WORD))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{place[1]:04X}"
