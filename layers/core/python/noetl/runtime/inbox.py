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
            return len(self._waiting), int(self._busy)

    def _loop(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if self._closing:
                    return
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                self._busy = True
            try:
                self._handle_patiently(batch)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _handle_patiently(self, batch: list[Event]) -> None:
        """The database may be away for a while: nothing that was reported is dropped."""
        tries = 0
        while not self._closing:
            try:
                self._handle(batch)
                return
            except InfrastructureError as away:
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
