"""The engine's inbox: events of this process, and the thread that handles them in batches.

Where one event waits and the thread rests, the worker that put it may handle it itself (``turn``): to wake the thread, and then a worker for
the next command, takes longer than the decision.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from noetl.domain.errors import InfrastructureError, as_exception
from noetl.domain.events import Event
from noetl.runtime.local.thread_pools import report_defect
from noetl.services.orchestrator.engine_deps import BatchEffects
from noetl.services.orchestrator.failed_events import is_outage
from noetl.services.orchestrator.paused_events import held_id

BATCH = 512
"""Most events in one commit."""
GATHER, GATHER_SECONDS = 32, 0.02
"""Events that are enough for a commit, and how long the engine waits for them while a pool is loaded: what it would decide sooner would
wait in the queue of that pool. A commit costs as much as four decisions."""
RETRY_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Pauses while the database is unreachable; the events wait in memory meanwhile."""
ASIDE_SECONDS = (1.0, 2.0, 5.0, 10.0)
"""Pauses of an event that needs something else that is unavailable, such as a tier of results. Other events are handled meanwhile."""
TURN_SECONDS = 2.0
"""How long a thread waits until a batch with its event begins. The batch before may take long: something that it needs may hang."""
DATABASE = frozenset({"database_unreachable", "outcome_unknown"})
"""Codes of errors after which the engine can handle no event. ``database_silent`` is none: it may be about one statement, such as one that is
too large for its way. Where the database hangs for all, the next try gets no connection, and is ``database_unreachable``."""


AT_ONCE = DATABASE | {"database_contention"}
"""Codes of outages that a worker met in its turn, after which the thread tries the event at once."""


@dataclass(slots=True, eq=False)
class _Asker:
    """A thread that waits until the engine has handled its event.

    ``woken``: locked until there is an answer. ``handled``: what the engine returned for the batch; None: the event was
    not handled, and the inbox no longer has it.
    """

    woken: threading.Lock = field(default_factory=threading.Lock)
    handled: BatchEffects | None = None


class _Aside(msgspec.Struct):
    """An event that the engine tries alone.

    ``at``: the time of the next try (monotonic seconds).
    """

    event: Event
    at: float = 0.0
    waits: int = 0
    """How often something that it needs was unavailable."""
    tries: int = 0
    """How often the engine failed on it."""
    asker: _Asker | None = None


class Inbox:
    """A queue of events with the thread that hands them to the engine.

    ``handle``: the engine. When it raises a retryable InfrastructureError, the inbox waits and tries again. ``failed``:
    is called with an event, the error and the number of this event's failures; returns the seconds after which the
    inbox tries the event again, None when it is settled. ``decided``: is called after each batch, when its commands and
    events are under way. ``loaded``: whether a decision can wait, because workers have enough to do; it takes no lock.

    ``changed`` guards this inbox, and is notified of every change.
    """

    def __init__(
        self,
        handle: Callable[[Sequence[Event]], BatchEffects | None],
        failed: Callable[[Event, Exception, int], float | None],
        log: Callable[[str], None],
        decided: Callable[[], object] = lambda: None,
        loaded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._handle = handle
        self._failed = failed
        lock = threading.RLock()
        self.changed = self._changed = threading.Condition(lock)
        self._work = threading.Condition(lock)
        """The thread waits for it: for events, or until a worker's turn is over."""
        self._log = log
        self._decided = decided
        self._loaded = loaded
        self._gathering = False
        self._enough = threading.Semaphore(0)
        """Released to end a wait for more events."""
        self._waiting: deque[Event] = deque()
        self._urgent: deque[_Aside] = deque()
        """Events that threads wait for: they go first."""
        self._refuses = False
        """The engine can handle nothing now: ``ask`` returns None at once."""
        self._held: Counter[int] = Counter()
        """Execution → number of events that wait or are being handled, without those that are set aside."""
        self._aside: dict[tuple[int, str], _Aside] = {}
        self._busy = False
        self._tried = False
        """Whether the last event taken had been set aside: waiting events have the next turn, however long such tries take."""
        self._closing = False
        self._last = 0
        """Waiting events that are still handled while this closes."""
        self._thread = threading.Thread(target=self._loop, name="noetl-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop the thread once it has handled the events that wait.

        Outcomes among them are in memory only. Events that follow from these, and those that are set aside, stay where they
        are durable. During an outage of the database nothing more is handled.
        """
        with self._changed:
            self._closing = True
            self._last = len(self._waiting)
            self._wake()
        self.hurry()
        self._thread.join(timeout=10.0)

    def put(self, events: Iterable[Event], turn: bool = False) -> None:
        """Queue events. ``turn``: the caller calls ``turn`` soon, so the thread is not woken."""
        with self._changed:
            for event in events:
                self._waiting.append(event)
                self._held[event.execution_id] += 1
            if turn:
                self._changed.notify_all()
            else:
                self._wake()
            if self._gathering and len(self._waiting) + len(self._urgent) >= GATHER:
                self.hurry()

    def _wake(self) -> None:
        self._work.notify()
        self._changed.notify_all()

    def turn(self, needed: bool = False) -> None:
        """Handle the one event that waits in this thread, or wake the inbox's own for what waits.

        ``needed``: a command waits for this thread, and for nothing of the engine. An event that meets a stall is set
        aside. What else fails goes back: the inbox's thread tries it again, as it does with its own.
        """
        with self._changed:
            if not (self._waiting or self._urgent):
                return
            if self._busy:
                return  # the next batch has it
            if needed or len(self._waiting) != 1 or self._urgent or self._closing or self._loaded():
                self._work.notify()
                return
            self._busy, self._tried = True, False
            event = self._waiting.popleft()
        handled = False
        try:
            self._handle([event])
            handled = True
        except InfrastructureError as outage:
            if is_outage(outage) and outage.code not in AT_ONCE:
                self._wait_for(
                    _Aside(event), outage
                )  # to meet it once more would hold up all others as long again
                handled = True
        except Exception:
            pass  # the inbox's thread meets the same, and knows what to do
        finally:
            with self._changed:
                self._busy = False
                if handled:
                    self._let_go([event])
                else:
                    self._waiting.appendleft(event)
                    self._last += self._closing  # it is one of those that waited
                if self._waiting or self._urgent or self._aside or self._closing:
                    self._work.notify()
                self._changed.notify_all()
            self._decided()

    def hurry(self) -> None:
        """Have the engine wait for no more events, since workers will soon be idle.

        It takes no lock.
        """
        if self._gathering:
            self._gathering = False
            self._enough.release()

    def _gather(self) -> None:
        """Wait for more events, as long as no worker is about to wait for a decision."""
        if len(self._waiting) + len(self._urgent) >= GATHER or self._closing:
            return
        while self._enough.acquire(blocking=False):
            pass
        self._gathering = True  # first: a pool that is not loaded from now on says so
        if self._loaded():
            self._enough.acquire(timeout=GATHER_SECONDS)
        self._gathering = False

    def ask(self, event: Event) -> BatchEffects | None:
        """Have the engine handle an event in its next batch, and return its answer for that batch.

        Return None when this process cannot handle the event now. A batch that fails abandons the events that threads
        wait for, so that each thread can deal with its own. So does a batch that does not begin within
        ``TURN_SECONDS``.
        """
        asker = _Asker()
        asker.woken.acquire()
        one = _Aside(event, asker=asker)
        with self._changed:
            if self._refuses or self._closing:
                return None
            self._urgent.append(one)
            self._held[event.execution_id] += 1
            self._wake()
        if not asker.woken.acquire(timeout=TURN_SECONDS) and not self._withdraw(one):
            asker.woken.acquire()
        return asker.handled

    def _withdraw(self, one: _Aside) -> bool:
        """Withdraw an event that a thread waits for.

        Return False when a batch has it already; the thread is then woken by that batch.
        """
        with self._changed:
            if one not in self._urgent:
                return False
            self._urgent.remove(one)
            self._let_go([one.event])
            return True

    def holds(self, execution_id: int) -> bool:
        """Return whether the engine decides about this execution, or will next. It takes no lock."""
        return execution_id in self._held

    def waits(self) -> bool:
        """Return whether an event waits for the engine. It takes no lock."""
        return bool(self._waiting or self._urgent)

    def counts(self) -> tuple[int, int]:
        """Return (number of events that wait, number of batches that are being handled)."""
        with self._changed:
            return len(self._urgent) + len(self._waiting) + len(self._aside), int(self._busy)

    def _loop(self) -> None:
        while (taken := self._next()) is not None:
            unasked = [one for one in taken if one.asker is None]
            try:
                self._handle_patiently(taken)
            except BaseException as error:
                # Such as a log that cannot be written. The thread continues: other threads wait for it, and so does every execution.
                report_defect(error)
                for one in unasked:  # the engine recognizes by its id an event that it has handled
                    self._put_aside(one, ASIDE_SECONDS[-1])
            finally:
                _notify(taken, None)
                with self._changed:
                    self._busy = False
                    if not self._tried:
                        self._let_go(one.event for one in taken)
                    self._changed.notify_all()
                self._decided()

    def _let_go(self, events: Iterable[Event]) -> None:
        for event in events:
            execution_id = event.execution_id
            self._held[execution_id] -= 1
            if not self._held[execution_id]:
                del self._held[execution_id]

    def _next(self) -> list[_Aside] | None:
        """Return the events to handle next; None when the inbox closes."""
        with self._changed:
            while self._busy or not (self._closing or self._urgent or self._waiting or self._aside):
                self._work.wait()
        if self._urgent or self._waiting:
            self._gather()
        return self._take()

    def _take(self) -> list[_Aside] | None:
        with self._changed:
            while self._busy or not self._closing:
                if self._busy:  # a worker has the turn
                    self._work.wait()
                    continue
                left = None
                if self._aside:
                    name, soonest = min(self._aside.items(), key=lambda one: one[1].at)
                    left = soonest.at - time.monotonic()
                    if left <= 0 and not (self._tried and (self._urgent or self._waiting)):
                        del self._aside[name]
                        self._busy = self._tried = True
                        return [soonest]
                if self._urgent or self._waiting:
                    self._busy, self._tried = True, False
                    return self._batch()
                self._work.wait(left)
            self._give_up_urgent()
            if not self._last:
                return None
            self._busy, self._tried = True, False
            return self._batch()

    def _batch(self) -> list[_Aside]:
        batch = [self._urgent.popleft() for _ in range(min(BATCH, len(self._urgent)))]
        more = min(BATCH - len(batch), self._last if self._closing else len(self._waiting))
        self._last = max(0, self._last - more)
        return batch + [_Aside(self._waiting.popleft()) for _ in range(more)]

    def _give_up_urgent(self) -> None:
        """Wake the threads that wait for an event, with the answer that it is not handled here."""
        self._let_go(one.event for one in self._urgent)
        _notify(self._urgent, None)
        self._urgent.clear()

    def _handle_patiently(self, batch: list[_Aside]) -> None:
        """Handle a batch; while the database is unreachable, try again.

        No reported event is dropped.
        """
        outages = 0
        while batch:
            try:
                _notify(batch, self._handle([one.event for one in batch]))
                return
            except BaseException as caught:
                error = as_exception(caught)
                left = _without_urgent(batch)
                unasked, batch = len(left) == len(batch), left
                if not (isinstance(error, InfrastructureError) and error.code in DATABASE):
                    if unasked:
                        self._one_by_one(batch, error)
                        return
                    continue  # an event that a thread waits for may have failed
                if not batch or self._closing:
                    self._last = 0
                    return
                pause = RETRY_SECONDS[min(outages, len(RETRY_SECONDS) - 1)]
                self._log(f"the database is unreachable ({error}); trying again in {pause:g} s")
                outages += 1
                self._pause(pause)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._refuses = True
            self._give_up_urgent()
        time.sleep(seconds)
        with self._changed:
            self._refuses = False

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
        except InfrastructureError as outage:
            one.tries -= 1
            self._wait_for(one, outage)
            return
        if pause is not None:
            self._put_aside(one, pause)

    def _wait_for(self, one: _Aside, outage: InfrastructureError) -> None:
        pause = ASIDE_SECONDS[min(one.waits, len(ASIDE_SECONDS) - 1)]
        self._log(f"an event of execution {one.event.execution_id} is tried again in {pause:g} s: {outage}")
        one.waits += 1
        self._put_aside(one, pause)

    def _put_aside(self, one: _Aside, pause: float) -> None:
        """Set an event aside for ``pause`` seconds, once even if the durable copy arrived as well."""
        one.at = time.monotonic() + pause
        with self._changed:
            self._aside[one.event.execution_id, held_id(one.event)] = one


def _notify(batch: Iterable[_Aside], handled: BatchEffects | None) -> None:
    """Wake the threads that wait for one of these events and have no answer yet."""
    for one in batch:
        if one.asker is not None:
            one.asker.handled = handled
            one.asker.woken.release()
            one.asker = None


def _without_urgent(batch: list[_Aside]) -> list[_Aside]:
    """Return the batch without the events that threads wait for; those threads are woken."""
    left = [one for one in batch if one.asker is None]
    _notify(batch, None)
    return left
