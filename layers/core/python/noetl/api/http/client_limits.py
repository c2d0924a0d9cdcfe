"""How much one client may hold of a server: connections, time to send a request, and threads while it reads an answer.

A client that sends its request slowly costs no thread, only a connection. So the deadlines are generous, and the caps are what keeps
one machine from taking every connection. A client that reads a large answer slowly keeps the thread that writes it: it has to read faster
as soon as others wait for a thread.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
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
    """Bytes per second that a body has on average after that."""
    silence: float = 60.0
    """Seconds that a connection may be idle, or that a client may leave an answer unread."""
    answer_rate: int = 65536
    """Bytes per second that a client reads on average, after ``body_seconds``, while its answer keeps a thread and requests wait for one.
    The rate of every other answer is ``body_rate``."""

    @property
    def pace(self) -> float:
        """Return the seconds between two looks at the connections."""
        return min(1.0, self.head_seconds / 4, self.body_seconds / 4, self.silence / 4)

    def most_of(self, peer: str) -> int:
        """Return how many connections a peer may have."""
        return self.connections if peer == THIS_MACHINE else min(self.per_peer, self.connections)

    def late_head(self, seconds: float) -> str | None:
        """Tell how a head is late that has been on its way for ``seconds``."""
        if seconds <= self.head_seconds:
            return None
        return f"the headers were not complete within {self.head_seconds:g} s"

    def late_body(self, seconds: float, received: int) -> str | None:
        """Tell how a body is late of which ``received`` bytes came in ``seconds``."""
        if received >= self.body_rate * (seconds - self.body_seconds):
            return None
        return f"the body came slower than {self.body_rate} bytes per second ({received} in {seconds:.0f} s)"

    def too_slow(self, readers: Iterable[Reader], threads: int, *, crowded: bool) -> Iterator[int]:
        """Tell which clients read too slowly, by their places in ``readers``. ``crowded``: requests wait for one of the ``threads``."""
        blocking: dict[str, list[tuple[float, int]]] = {}
        for place, one in enumerate(readers):
            rate = self.answer_rate if crowded and one.blocks else self.body_rate
            if one.taken < rate * (one.seconds - self.body_seconds):
                yield place
            elif crowded and one.blocks and one.peer != THIS_MACHINE:
                blocking.setdefault(one.peer, []).append((one.taken / max(one.seconds, self.pace), place))
        for found in blocking.values():
            yield from (place for _, place in sorted(found)[: max(0, len(found) - max(1, threads // 2))])


@dataclass(frozen=True, slots=True)
class Reader:
    """A client that has an answer to read."""

    peer: str
    seconds: float
    """Since when it has never read all that there was."""
    taken: int
    """Bytes that it has read since then."""
    blocks: bool
    """Whether a thread still writes the answer."""


THIS_MACHINE = "this machine"


def peer_of(address: str) -> str:
    """Name who is behind an address: this machine, an IPv4 address, or the network that an IPv6 host has to itself."""
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
