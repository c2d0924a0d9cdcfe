"""Events of this process on their way to the engine, and the thread that hands over whatever waits as one batch."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from noetl.domain.errors import InfrastructureError, as_exception
from noetl.domain.events import Event
from noetl.services.failed_events import is_outage
from noetl.services.holding import held_id

BATCH = 512
"""Most events in one commit; it takes what is waiting and never waits for more."""
RETRY_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Pauses while the database is away; the events wait in memory meanwhile."""
ASIDE_SECONDS = (1.0, 2.0, 5.0, 10.0)
"""Pauses of an event that needs something else that is away: a tier of results, say. The others go on meanwhile."""
DATABASE = frozenset({"database_unreachable", "outcome_unknown"})
"""Codes: nothing can be handled."""


class _Aside(msgspec.Struct):
    """An event that waits alone. ``at``: when it is tried again (monotonic seconds)."""

    event: Event
    at: float = 0.0
    waits: int = 0
    """How often something that it needs was away."""
    tries: int = 0
    """How often the engine failed on it."""


class Inbox:
    """``handle``: the engine; what it raises as retryable InfrastructureError is waited for. ``failed``: told of an event, the error and which
    failure of this event it was; gives the seconds after which the event is tried again, None when it is settled. ``changed``: guards
    this, and is told of every change. ``decided``: called after each batch, when what follows from it is under way."""

    def __init__(
        self,
        handle: Callable[[Sequence[Event]], object],
        failed: Callable[[Event, Exception, int], float | None],
        changed: threading.Condition,
        log: Callable[[str], None],
        decided: Callable[[], object] = lambda: None,
    ) -> None:
        self._handle = handle
        self._failed = failed
        self._changed = changed
        self._log = log
        self._decided = decided
        self._waiting: deque[Event] = deque()
        self._held: Counter[int] = Counter()
        """Execution → events that wait or are being handled; none of those that are aside."""
        self._aside: dict[tuple[int, str], _Aside] = {}
        self._busy = False
        self._tried = False
        """Whether what was taken last had been set aside: what waits has its turn then, however long such tries take."""
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
            for event in events:
                self._waiting.append(event)
                self._held[event.execution_id] += 1
            self._changed.notify_all()

    def holds(self, execution_id: int) -> bool:
        """Whether the engine decides about this execution, or will next. It takes no lock."""
        return execution_id in self._held

    def counts(self) -> tuple[int, int]:
        """(events that wait, batches that are being handled)."""
        with self._changed:
            return len(self._waiting) + len(self._aside), int(self._busy)

    def _loop(self) -> None:
        while (taken := self._take()) is not None:
            try:
                self._handle_patiently(taken)
            finally:
                with self._changed:
                    self._busy = False
                    if not self._tried:
                        self._let_go(taken)
                    self._changed.notify_all()
                self._decided()

    def _let_go(self, taken: Iterable[_Aside]) -> None:
        for one in taken:
            execution_id = one.event.execution_id
            self._held[execution_id] -= 1
            if not self._held[execution_id]:
                del self._held[execution_id]

    def _take(self) -> list[_Aside] | None:
        """What to handle next; None at the end."""
        with self._changed:
            while not self._closing:
                left = None
                if self._aside:
                    name, soonest = min(self._aside.items(), key=lambda one: one[1].at)
                    left = soonest.at - time.monotonic()
                    if left <= 0 and not (self._tried and self._waiting):
                        del self._aside[name]
                        self._busy = self._tried = True
                        return [soonest]
                if self._waiting:
                    self._busy, self._tried = True, False
                    return [_Aside(self._waiting.popleft()) for _ in range(min(BATCH, len(self._waiting)))]
                self._changed.wait(left)
        return None

    def _handle_patiently(self, batch: list[_Aside]) -> None:
        """The database may be away for a while: nothing that was reported is dropped."""
        outages = 0
        while not self._closing:
            try:
                self._handle([one.event for one in batch])
                return
            except InfrastructureError as away:
                if away.code not in DATABASE:
                    self._one_by_one(batch, away)
                    return
                pause = RETRY_SECONDS[min(outages, len(RETRY_SECONDS) - 1)]
                self._log(f"the database is away ({away}); trying again in {pause:g} s")
                outages += 1
                time.sleep(pause)
            except BaseException as error:
                self._one_by_one(batch, as_exception(error))
                return

    def _one_by_one(self, batch: list[_Aside], error: Exception) -> None:
        """Handle events one by one, so that one that meets an outage or an error delays no other."""
        if len(batch) > 1:
            for one in batch:
                self._handle_patiently([one])
            return
        (one,) = batch
        if isinstance(error, InfrastructureError) and is_outage(error):
            self._wait_for(one, error)
            return
        one.tries += 1
        try:
            pause = self._failed(one.event, error, one.tries)
        except InfrastructureError as away:
            one.tries -= 1
            self._wait_for(one, away)
            return
        if pause is not None:
            self._put_aside(one, pause)

    def _wait_for(self, one: _Aside, away: InfrastructureError) -> None:
        pause = ASIDE_SECONDS[min(one.waits, len(ASIDE_SECONDS) - 1)]
        self._log(f"an event of execution {one.event.execution_id} is tried again in {pause:g} s: {away}")
        one.waits += 1
        self._put_aside(one, pause)

    def _put_aside(self, one: _Aside, pause: float) -> None:
        """It may have come a second time, from where it is durable."""
        one.at = time.monotonic() + pause
        with self._changed:
            self._aside[one.event.execution_id, held_id(one.event)] = one
