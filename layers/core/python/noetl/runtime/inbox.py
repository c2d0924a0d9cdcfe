"""Events of this process on their way to the engine, and the thread that hands over whatever waits as one batch."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Event

BATCH = 512
"""Most events in one commit; it takes what is waiting and never waits for more."""
RETRY_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Pauses while the database is away; the events wait in memory meanwhile."""
ASIDE_SECONDS = (1.0, 2.0, 5.0, 10.0)
"""Pauses of an event that needs something else that is away: a tier of results, say. The others go on meanwhile."""
DATABASE = frozenset({"database_unreachable", "outcome_unknown"})
"""Codes: nothing can be handled."""


class Inbox:
    """``handle``: the engine; what it raises as InfrastructureError is tried again. ``changed``: guards this, and is told of every change."""

    def __init__(
        self,
        handle: Callable[[Sequence[Event]], None],
        changed: threading.Condition,
        log: Callable[[str], None],
    ) -> None:
        self._handle = handle
        self._changed = changed
        self._log = log
        self._waiting: deque[Event] = deque()
        self._aside: dict[tuple[int, str], tuple[float, int, Event]] = {}
        """(when it is tried again, how often it was set aside, the event)."""
        self._busy = False
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="noetl-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """What waits stays where it is durable. A batch that is being handled may end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout=10.0)

    def put(self, events: Iterable[Event]) -> None:
        with self._changed:
            self._waiting.extend(events)
            self._changed.notify_all()

    def counts(self) -> tuple[int, int]:
        """(events that wait, batches that are being handled)."""
        with self._changed:
            return len(self._waiting) + len(self._aside), int(self._busy)

    def _loop(self) -> None:
        while (taken := self._take()) is not None:
            try:
                self._handle_patiently(*taken)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _take(self) -> tuple[list[Event], int] | None:
        """What to handle next, and how often it was set aside; None at the end."""
        with self._changed:
            while not self._closing:
                left = None
                if self._aside:
                    name, (at, times, event) = min(self._aside.items(), key=lambda one: one[1][0])
                    left = at - time.monotonic()
                    if left <= 0:
                        del self._aside[name]
                        self._busy = True
                        return [event], times
                if self._waiting:
                    self._busy = True
                    return [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))], 0
                self._changed.wait(left)
        return None

    def _handle_patiently(self, batch: list[Event], aside: int = 0) -> None:
        """The database may be away for a while: nothing that was reported is dropped."""
        tries = 0
        while not self._closing:
            try:
                self._handle(batch)
                return
            except InfrastructureError as away:
                if away.code not in DATABASE:
                    self._one_by_one(batch, aside, away)
                    return
                pause = RETRY_SECONDS[min(tries, len(RETRY_SECONDS) - 1)]
                self._log(f"the database is away ({away}); trying again in {pause:g} s")
                tries += 1
                time.sleep(pause)
            except Exception as error:
                self._log(f"a batch of {len(batch)} event(s) could not be handled: {error!r}")
                if len(batch) == 1:
                    return
                for event in batch:
                    self._handle_patiently([event])
                return

    def _one_by_one(self, batch: list[Event], aside: int, away: InfrastructureError) -> None:
        """Something is away that some of them need: those wait for it, and nobody else does."""
        if len(batch) > 1:
            for event in batch:
                self._handle_patiently([event])
            return
        (event,), pause = batch, ASIDE_SECONDS[min(aside, len(ASIDE_SECONDS) - 1)]
        self._log(f"an event of execution {event.execution_id} is tried again in {pause:g} s: {away}")
        with self._changed:
            # It may have come a second time, from where it is durable.
            name = event.execution_id, event.event_id
            self._aside[name] = (time.monotonic() + pause, aside + 1, event)
