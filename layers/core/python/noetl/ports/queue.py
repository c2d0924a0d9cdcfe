"""Port of a message queue.

Adapters: SQS (FIFO and standard), memory. One contract suite holds all of them to this text.

Delivery is at least once and in any order: a FIFO queue limits contention (one batch of a group at a time), and nothing may depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Outgoing(msgspec.Struct, frozen=True):
    """A message to send.

    ``body``: JSON text (characters that queues refuse are escaped on the way). ``group``: messages of one group compete for nothing
    (FIFO: they follow each other; standard: fair queueing). ``dedup``: repeats within five minutes may be dropped by a FIFO queue, which
    needs both (at most 128 printable ASCII characters). ``delay``: seconds, at most MAX_DELAY, standard queues only. ``why``: a reason
    that travels beside the body (dead letters).
    """

    body: str
    group: str = ""
    dedup: str = ""
    delay: int = 0
    why: str = ""


class Delivery(msgspec.Struct, frozen=True):
    """A message that was received.

    ``receipt`` acknowledges it. ``received``: which delivery of this message it is (1, 2, …). ``sent_at``: epoch seconds.
    """

    message_id: str
    receipt: str
    body: str
    received: int = 1
    sent_at: float = 0.0
    group: str = ""
    why: str = ""


MAX_DELAY = 900
"""Seconds: the longest DelaySeconds of SQS."""


class Queue(Protocol):
    """A message queue.

    Raises InfrastructureError when the queue cannot be reached; nothing was acknowledged then.
    """

    def send(self, messages: Sequence[Outgoing]) -> Sequence[int]:
        """Send messages in as few requests as the queue takes.

        Entries that are refused are tried again a few times.

        Returns the positions of messages that could not be sent (normally none): the caller keeps them. Raises InvalidInputError
        (code="message_too_large") for a message that the queue can never take, InfrastructureError when none could be sent.
        """

    def receive(self, limit: int, wait_seconds: float = 0.0) -> Sequence[Delivery]:
        """Receive at most ``limit`` messages.

        They stay invisible to other readers for the queue's visibility timeout.
        """

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """These are done with. A receipt that has expired is no error (the message comes again)."""

    def nack(self, deliveries: Sequence[Delivery], delay_seconds: int = 0) -> None:
        """Make messages visible again after ``delay_seconds``.

        Until then their receipts stay valid, so this also keeps hold of what takes long.
        """
