"""A queue that lives and dies with the process, as strange as SQS where SQS is strange."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from noetl.adapters.queue_text import MAX_BYTES, sendable
from noetl.ports.gauges import QueueGauge
from noetl.ports.queue import Delivery, Outgoing

DEDUP_SECONDS = 300.0
BATCH = 10


@dataclass(slots=True)
class _Kept:
    message_id: str
    body: str
    group: str
    sent_at: float
    due: float
    """When it is visible (again)."""
    received: int = 0
    receipt: str = ""
    why: str = ""


class MemoryQueue:
    """``visibility``: seconds a received message stays hidden. ``max_receives``: after so many deliveries the next receive moves it to
    ``dead_letters`` instead. ``clock``: epoch seconds. Thread-safe.

    As in SQS: a FIFO queue forgets a deduplication id five minutes after it was first taken, whether its message still exists or not,
    and gives out nothing of a group while one of its messages is hidden.
    """

    def __init__(
        self,
        *,
        fifo: bool = False,
        visibility: float = 30.0,
        max_receives: int = 0,
        dead_letters: MemoryQueue | None = None,
        limit: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fifo = fifo
        self._visibility = visibility
        self._max_receives = max_receives
        self._dead_letters = dead_letters
        self._limit = limit
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._receipts: dict[str, str] = {}
        self._taken: dict[str, float] = {}
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """Messages that are not done with, hidden ones among them."""
        with self._changed:
            return len(self._kept)

    def send(self, messages: Sequence[Outgoing]) -> Sequence[int]:
        bodies = sendable(messages, fifo=self._fifo, limit=self._limit)
        with self._changed:
            now = self._clock()
            for message, body in zip(messages, bodies, strict=True):
                if not (self._fifo and self._repeats(message.dedup, now)):
                    self._keep(body, message.group, now, now + message.delay, message.why)
            self._changed.notify_all()
        return []

    def receive(self, limit: int, wait_seconds: float = 0.0) -> Sequence[Delivery]:
        """At most ten at once, as SQS."""
        end = time.monotonic() + wait_seconds
        while True:
            with self._changed:
                found, dead = self._take(max(1, min(limit, BATCH)))
                left = end - time.monotonic()
                if not found and not dead and left > 0:
                    self._changed.wait(min(left, self._until_due()))
            for kept in dead:
                if self._dead_letters is not None:
                    self._dead_letters.adopt(kept.body, kept.group)
            if found or left <= 0:
                return found

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        with self._changed:
            for kept in self._held(deliveries):
                del self._kept[kept.message_id]
                del self._receipts[kept.receipt]
            self._changed.notify_all()

    def nack(self, deliveries: Sequence[Delivery], delay_seconds: int = 0) -> None:
        with self._changed:
            now = self._clock()
            for kept in self._held(deliveries):
                if kept.due > now:
                    kept.due = now + max(0, delay_seconds)
            self._changed.notify_all()

    def gauge(self, name: str) -> QueueGauge:
        """Count as SQS does."""
        with self._changed:
            now = self._clock()
            hidden = [kept for kept in self._kept.values() if kept.due > now]
            in_flight = sum(kept.received > 0 for kept in hidden)
            return QueueGauge(name, len(self._kept) - len(hidden), in_flight, len(hidden) - in_flight)

    def adopt(self, body: str, group: str) -> None:
        """A message that another queue gave up."""
        with self._changed:
            now = self._clock()
            self._keep(body, group, now, now)
            self._changed.notify_all()

    def _keep(self, body: str, group: str, now: float, due: float, why: str = "") -> None:
        message_id = f"m{next(self._numbers)}"
        self._kept[message_id] = _Kept(message_id, body, group, now, due, why=why)

    def _repeats(self, dedup: str, now: float) -> bool:
        for known in [known for known, until in self._taken.items() if until <= now]:
            del self._taken[known]
        if dedup in self._taken:
            return True
        self._taken[dedup] = now + DEDUP_SECONDS
        return False

    def _take(self, limit: int) -> tuple[list[Delivery], list[_Kept]]:
        """What is given out now, and what was given out too often."""
        now = self._clock()
        found: list[Delivery] = []
        dead: list[_Kept] = []
        in_flight = {kept.group for kept in self._kept.values() if kept.due > now} if self._fifo else set()
        for kept in list(self._kept.values()):
            if len(found) == limit:
                break
            if kept.due > now or kept.group in in_flight:
                continue
            if self._dead_letters is not None and 0 < self._max_receives <= kept.received:
                dead.append(kept)
                del self._kept[kept.message_id]
                self._receipts.pop(kept.receipt, None)
            else:
                found.append(self._deliver(kept, now))
        return found, dead

    def _deliver(self, kept: _Kept, now: float) -> Delivery:
        self._receipts.pop(kept.receipt, None)
        kept.received += 1
        kept.receipt = f"r{next(self._numbers)}"
        kept.due = now + self._visibility
        self._receipts[kept.receipt] = kept.message_id
        return Delivery(
            kept.message_id, kept.receipt, kept.body, kept.received, kept.sent_at, kept.group, kept.why
        )

    def _held(self, deliveries: Sequence[Delivery]) -> Iterator[_Kept]:
        """The messages of receipts that still hold: each message's latest, on a FIFO queue not after it became visible again."""
        now = self._clock()
        for delivery in deliveries:
            kept = self._kept.get(self._receipts.get(delivery.receipt, ""))
            if kept is not None and not (self._fifo and kept.due <= now):
                yield kept

    def _until_due(self) -> float:
        """Real seconds to sleep before looking again; a clock of tests may go its own way, so never long."""
        now = self._clock()
        return max(
            0.005, min((kept.due - now for kept in self._kept.values() if kept.due > now), default=0.5)
        )
