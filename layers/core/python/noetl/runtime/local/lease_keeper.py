"""The keeper thread: it keeps the lease, wakes commands, fires timers and adopts work."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

import msgspec

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Event, TimerFired
from noetl.domain.workers.lost_owners import Takes
from noetl.ports.executions.execution_store import ExecutionStore, Published

T = TypeVar("T")
SWEEP_SECONDS = 1.0
"""How often the keeper asks the store for work of processes that are dead."""
TIMER_SECONDS = 0.25
"""Longest time between two looks at due timers."""
AGAIN_SECONDS = 1.0
"""Pause before something that failed is tried again."""
DOUBTFUL = frozenset({"outcome_unknown", "database_silent"})
"""Codes of errors after which an answer of the store may have been lost, with the commands and events that it handed to this process.
After any other the statement did nothing. Who takes leases again has everything that runs done twice, so it is for these alone."""
NO_THREAD_SECONDS = 1.0
"""Pause of a command for which no thread could be started."""
TIDY_SECONDS = 300.0
_with_sleep = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Monotonic seconds, of which some pass while the machine sleeps."""
ADOPT = 1000
"""Most commands or events taken over at once."""


def is_doubtful(error: BaseException) -> bool:
    """Return whether an answer of the store may have been lost with ``error``."""
    return isinstance(error, InfrastructureError) and error.code in DOUBTFUL


class PeriodicDuty(msgspec.Struct):
    """A duty that the keeper does at once and then every ``seconds``; ``do`` is short.

    The keeper logs what ``do`` raises, and calls it again at its next turn.
    """

    seconds: float
    do: Callable[[], object]
    due: float = 0.0


class Keeper:
    """The keeper's thread.

    ``adopt`` hands commands and events to the runtime; ``dispatch`` runs a command whose delay is over.
    """

    def __init__(
        self,
        store: ExecutionStore,
        owner: str,
        lease_seconds: float,
        adopt: Callable[[Collection[Command], Collection[Event]], None],
        dispatch: Callable[[Command], None],
        log: Callable[[str], None],
    ) -> None:
        self.chores: list[PeriodicDuty] = []
        self.takes: Takes = "everything"
        """``nothing``: the keeper adopts no work of other processes, and fires no due timers."""
        self.revive: Callable[[], bool] = lambda: False
        self.leave: Callable[[], Collection[Command]] = lambda: ()
        """Removes the commands that no thread has begun, and returns them. They must not run twice when other processes may take them, or
        when they come back with a claim."""
        self.store = store
        self.owner = owner
        self.lease_seconds = lease_seconds
        self.give = adopt
        self.dispatch = dispatch
        self.log = log
        self._heap: list[tuple[float, int, Command]] = []
        self._number = itertools.count()
        self._wake = threading.Condition()
        self._closed = False
        self._retired = False
        self._doubtful = False
        self._behind = _with_sleep() - time.monotonic()
        self._thread = threading.Thread(target=self._keep, name="noetl-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def retire(self) -> None:
        """Do no more than hold the lease.

        This process ends, and what runs in it may take longer than the lease.
        """
        with self._wake:
            self._retired = True
            self._wake.notify_all()

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self._thread.join(timeout=5.0)

    def delay(self, command: Command) -> None:
        """Hand ``command`` to the runtime once its delay is over."""
        ready = msgspec.structs.replace(command, delay=0.0)
        with self._wake:
            heapq.heappush(self._heap, (time.monotonic() + command.delay, next(self._number), ready))
            self._wake.notify_all()

    def hasten(self, wanted: Callable[[Command], bool]) -> None:
        """End the delays of the commands that ``wanted`` accepts."""
        with self._wake:
            now = time.monotonic()
            self._heap = [
                (min(due, now) if wanted(command) else due, number, command)
                for due, number, command in self._heap
            ]
            heapq.heapify(self._heap)
            self._wake.notify_all()

    def delayed(self) -> int:
        with self._wake:
            return len(self._heap)

    def adopt(self) -> bool:
        """Claim commands and events that no living process owns. Return whether there were some.

        Any thread may call it.
        """
        if self.takes == "nothing":
            return False
        try:
            commands = self.store.claim(self.owner, ADOPT, lost=self.takes == "everything")
            self._hand_on(commands, ())
            events = self.store.undelivered(self.owner, ADOPT)
            self._hand_on((), events)
        except InfrastructureError as error:
            if is_doubtful(error):
                self.doubt()
            raise
        return bool(commands or events)

    def _hand_on(self, commands: Collection[Command], events: Collection[Event]) -> None:
        """Hand the runtime what the store has assigned to this process.

        Raises what the runtime raises.
        """
        try:
            self.give(commands, events)
        except BaseException:
            self.give_back(commands, events)
            raise

    def give_back(self, commands: Collection[Command], events: Collection[Event] = ()) -> None:
        """Release what the store assigned to this process and the runtime could not take.

        No other process claims work that a living process holds. Released work is claimed again, by this process or
        another. Nothing else is released, so that a defect that occurs again supersedes no other work.
        """
        timers = [(one.execution_id, one.timer) for one in events if isinstance(one, TimerFired)]
        posted = [one for one in events if not isinstance(one, TimerFired)]
        if not (commands or posted or timers):
            return
        try:
            self.store.hand_over(self.owner, Published(), Published(list(commands), posted, timers))
        except Exception as error:
            self.log(f"what could not be begun could not be given back: {error!r}")
            self.doubt()

    def doubt(self) -> None:
        """Note that the store failed, and that work it assigned to this process may be lost.

        As soon as it answers again, this process releases its leases and claims them again; attempts that are still in
        memory are superseded by their fence.
        """
        with self._wake:
            self._doubtful = True
            self._wake.notify_all()

    def _take_anew(self) -> bool:
        """Take the leases again after a doubt.

        Return whether the lease was over, so that nothing was claimed yet.
        """
        with self._wake:
            doubtful, self._doubtful = self._doubtful, False
        if not doubtful:
            return False
        released = False
        try:
            was_over = self._beat()
            if self.takes != "nothing":
                self.leave()
            self.store.release(self.owner)
            released = True
            self.store.heartbeat(self.owner, self.lease_seconds)
            while not was_over and self.adopt():
                # A slow claim must not outlast the lease: the next one would claim this process's own commands, in an endless loop.
                self.store.heartbeat(self.owner, self.lease_seconds)
        except Exception:
            # Releasing alone brings back what was left. After it, the next looks claim the rest: releasing again would supersede what runs.
            if not released:
                self.doubt()
            raise
        return was_over

    def _keep(self) -> None:
        beat = sweep = timers = time.monotonic()
        while True:
            now = time.monotonic()
            was_over: bool | None = False
            try:
                if not self._retired:
                    self._safely(partial(self._dispatch_due, beat))
                    was_over = self._safely(self._take_anew)
                now = time.monotonic()  # that may have taken long, and a claim must not outlast the lease
                if self._slept() or now >= beat:
                    was_over = self._beat() or was_over
                    beat = now + self.lease_seconds / 3
                if was_over:
                    # Other processes that were cut off, or slept on this machine, live as well: they extend their leases first.
                    sweep = timers = now + self.lease_seconds / 3 + AGAIN_SECONDS
                if not self._retired:
                    if now >= sweep:
                        self._safely(self.adopt)
                        sweep = now + SWEEP_SECONDS
                    if now >= timers:
                        wait = self._safely(self._fire_timers)
                        timers = now + (AGAIN_SECONDS if wait is None else wait)
                    self._do_chores(now)
            except InfrastructureError as outage:
                # The duties that are handed work note their doubts themselves. A heartbeat or a chore that fails loses none.
                self.log(f"the keeper cannot reach the database: {outage}")
                self._revive()
                beat = sweep = timers = self._put_off(now)
            except Exception as error:
                # The keeper outlives its own defects: without it nothing holds the lease.
                self.log(f"the keeper stumbled: {error!r}")
                beat = self._put_off(now)
            if self._rest(beat, sweep, timers, *(chore.due for chore in self.chores)):
                return

    def _slept(self) -> bool:
        """Return whether the machine slept since the last look.

        Its sleep is no part of the time that this thread waits for its next heartbeat.
        """
        behind = _with_sleep() - time.monotonic()
        slept, self._behind = behind - self._behind >= 1.0, behind
        return slept

    def _beat(self) -> bool:
        """Extend the lease, and return whether it was over.

        Then other processes may have the unbegun commands: each is looked at before it runs.
        """
        was_over = self.store.heartbeat(self.owner, self.lease_seconds)
        if was_over:
            for command in self.leave():
                self.delay(command)
        return was_over

    def _rest(self, beat: float, *dues: float) -> bool:
        """Wait until something is due or asked for; return whether the keeper is closed."""
        with self._wake:
            if not self._closed:
                dues = () if self._retired else (*dues, *(due for due, _, _ in self._heap[:1]))
                self._wake.wait(max(0.0, min((beat, *dues)) - time.monotonic()))
            return self._closed

    def _safely(self, duty: Callable[[], T]) -> T | None:
        """Do one duty, and log what it raises, so that a duty that fails stops no other.

        Raises InfrastructureError alone: the database is unreachable.
        """
        try:
            return duty()
        except InfrastructureError:
            raise
        except BaseException as error:
            # A panic of a compiled library is no Exception.
            self.log(f"the keeper stumbled: {error!r}")
            return None

    def _revive(self) -> None:
        """Start this process's own database again if it has ended; no other process does."""
        try:
            if self.revive():
                self.log("the embedded database had ended; it is started again")
        except Exception as error:
            self.log(f"the embedded database cannot be started again: {error}")

    def _put_off(self, now: float) -> float:
        """Return when to try again; chores wait until then as well."""
        again = now + AGAIN_SECONDS
        for chore in self.chores:
            chore.due = max(chore.due, again)
        return again

    def _do_chores(self, now: float) -> None:
        for chore in list(self.chores):
            if now >= chore.due:
                chore.due = now + chore.seconds
                self._safely(chore.do)

    def _dispatch_due(self, until: float) -> None:
        """Dispatch commands whose delay is over; one that fails is tried again after a pause.

        Each asks the store, so that many may take longer than the lease: it stops at ``until``, for the heartbeat.
        """
        while True:
            with self._wake:
                if not self._heap or self._heap[0][0] > time.monotonic():
                    return
                _, number, command = heapq.heappop(self._heap)
            try:
                self.dispatch(command)
            except Exception:
                with self._wake:
                    heapq.heappush(self._heap, (time.monotonic() + AGAIN_SECONDS, number, command))
                raise
            if time.monotonic() >= until:
                return

    def _fire_timers(self) -> float:
        """Fire due timers, and return the seconds until the next look."""
        if self.takes == "nothing":
            return AGAIN_SECONDS
        try:
            events, until = self.store.due_timers(self.owner, ADOPT)
        except InfrastructureError as error:
            if is_doubtful(error):
                self.doubt()
            raise
        if events:
            self._hand_on((), events)
        return TIMER_SECONDS if until is None else max(0.0, min(TIMER_SECONDS, until))
