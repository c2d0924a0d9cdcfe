"""Backpressure: refusal of new starts and events while too much work waits.

Accepted work stays accepted; a refused client repeats its request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from noetl.domain.errors import OverloadedError
from noetl.ports.executions.inspection import Backlog

LIMIT = 50_000
"""Most events, and most commands, that wait (NOETL_BACKLOG_LIMIT)."""
FRESH_SECONDS = 1.0
"""How long a measurement counts."""
AGAIN_SECONDS = 5


class Backpressure(msgspec.Struct):
    """Refusal of requests while the backlog is too long.

    ``measure``: (a number) → what waits, each counted up to it. ``clock``: monotonic seconds. ``refused``: called for each refusal.
    """

    measure: Callable[[int], Backlog]
    limit: int
    clock: Callable[[], float]
    refused: Callable[[str], None] = lambda what: None
    _found: Backlog = msgspec.field(default_factory=lambda: Backlog(0, 0))
    _until: float = float("-inf")
    _lock: threading.Lock = msgspec.field(default_factory=threading.Lock)

    def check_start(self) -> None:
        """Raise OverloadedError when too many events or commands wait."""
        found = self._measured()
        self._check("events", found.events)
        self._check("commands", found.commands)

    def check_event(self) -> None:
        """Refuse a worker's report while too many events wait.

        Commands do not count here, since reports are what reduces them.
        """
        self._check("events", self._measured().events)

    def _measured(self) -> Backlog:
        """Return the backlog, measured now and then.

        One caller measures at a time; the others get the last result.
        """
        if self.clock() >= self._until and self._lock.acquire(blocking=False):
            try:
                self._found = self.measure(self.limit + 1)
                self._until = self.clock() + FRESH_SECONDS
            finally:
                self._lock.release()
        return self._found

    def _check(self, what: str, waiting: int) -> None:
        if waiting > self.limit:
            self.refused("backlog_full")
            raise OverloadedError(
                f"more than {self.limit} {what} wait already",
                code="backlog_full",
                hint="ask again later, with the same Idempotency-Key; `GET /api/queue` shows what waits",
                details={"waiting": what, "limit": self.limit, "retry_after": AGAIN_SECONDS},
            )
