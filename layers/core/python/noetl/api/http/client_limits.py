"""Limits of one client: connections, and the time to send a request and read its answer.

A slow client costs no thread, only a connection and what its answer takes. So the deadlines are generous, and the caps are what keeps
one machine from taking every connection.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Caps of connections, and deadlines of requests that are being received."""

    connections: int = 1000
    """Most connections in total; beyond it the server closes the one that has been idle longest."""
    per_peer: int = 100
    """Most connections of one other machine; this machine's proxies and programs have the total."""
    head_seconds: float = 15.0
    """From the first byte of a request to the end of its headers."""
    body_seconds: float = 15.0
    """From the headers on, before the rate of the body counts."""
    body_rate: int = 1024
    """Bytes per second that a body has on average after that, and that a client reads of an answer."""
    silence: float = 60.0
    """Seconds that a connection may be idle, or that a client may leave an answer unread."""

    @property
    def pace(self) -> float:
        """Return the seconds between two looks at the connections."""
        return min(1.0, self.head_seconds / 4, self.body_seconds / 4, self.silence / 4)

    def most_of(self, peer: str) -> int:
        """Return how many connections a peer may have."""
        return self.connections if peer == THIS_MACHINE else min(self.per_peer, self.connections)

    def late_head(self, seconds: float) -> str | None:
        """Return why a head is late after ``seconds``; None: it is not late."""
        if seconds <= self.head_seconds:
            return None
        return f"the headers were not complete within {self.head_seconds:g} s"

    def late_body(self, seconds: float, received: int) -> str | None:
        """Return why a body with ``received`` bytes after ``seconds`` is late; None: it is not."""
        if received >= self.body_rate * (seconds - self.body_seconds):
            return None
        return f"the body came slower than {self.body_rate} bytes per second ({received} in {seconds:.0f} s)"

    def late_reader(self, seconds: float, taken: int) -> bool:
        """Check whether a client reads its answer too slowly.

        It has read ``taken`` bytes since it first left some unread, ``seconds`` ago.
        """
        return taken < self.body_rate * (seconds - self.body_seconds)


THIS_MACHINE = "this machine"


def peer_of(address: str) -> str:
    """Return the peer of an address: this machine, an IPv4 address, or an IPv6 host's network."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return THIS_MACHINE
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_loopback:
        return THIS_MACHINE
    if found.version == 6:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
