"""Pools of commands that a worker process runs (``thread_pools``: those of this process)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable

from noetl.domain.commands import Command
from noetl.domain.workers.process_need import Need
from noetl.ports.gauges import QueueGauge
from noetl.runtime.local.thread_pools import take_waiting
from noetl.services.worker.ready_commands import PATIENCE, Turns

AHEAD = 16
"""Commands for each thread of the other process, the running ones among them, that are sent to it. It has the next one there when this
process is busy with a decision."""


STALLED_SECONDS = 0.02
"""No command of a pool has been run for so long: those that were sent ahead wait for long ones."""


class ProcessPool:
    """Commands of a pool for another process, in the order of ``ready_commands``.

    ``size``: how many of them it runs at once; ``limit``: how many it may run now, since others run here. ``places`` and
    ``need``: see ``Turns``. ``send``: gives commands to the other process. ``wanted``: whether a command has to be run
    still; ``dropped`` is called with one that has not. ``starved``: is called when the pool is not loaded any more.
    """

    def __init__(
        self,
        name: str,
        size: int,
        send: Callable[[ProcessPool, Collection[Command]], None],
        limit: Callable[[], int],
        places: int | None = None,
        need: Callable[[int], Need] = lambda execution_id: Need.NONE,
        wanted: Callable[[Command], bool] = lambda command: True,
        dropped: Callable[[Collection[Command]], object] = lambda commands: None,
        starved: Callable[[], object] = lambda: None,
    ) -> None:
        self.name, self.size, self.limit = name, size, limit
        self._send, self._wanted, self._dropped, self._starved = send, wanted, dropped, starved
        self._bounded = places is not None
        self._ahead = AHEAD * size if places is None else min(AHEAD * size, max(places, size))
        self._turns: Turns[Command] = Turns(None if places is None else max(places, size), need)
        self._lock = threading.Lock()
        self._clock = time.monotonic
        self.closed = False
        self._moved = self._clock()
        """When a command was last run to its end, or sent to idle threads."""
        self._taking_back = False
        """The other process was asked for commands, and has not answered."""

    @property
    def load(self) -> int:
        """Count the commands that wait or run. It takes no lock."""
        return self._turns.running + self._turns.ready

    @property
    def free(self) -> int:
        """Count the threads of the other process that have no command now. It takes no lock."""
        return max(0, self.limit() - self.load)

    @property
    def behind(self) -> int:
        """Count the commands, sent and not sent, for which no thread is free. It takes no lock."""
        return max(0, self.load - self.limit())

    @property
    def stalled(self) -> bool:
        """Return whether commands wait behind others that take long. It takes no lock."""
        return self._has_waited(STALLED_SECONDS)

    @property
    def starves(self) -> bool:
        """Return whether commands have waited long behind others.

        A busy process takes some of them over.
        """
        return self._has_waited(PATIENCE)

    @property
    def waits(self) -> bool:
        """Return whether a command was not sent. It takes no lock."""
        return self._turns.ready > 0

    @property
    def loaded(self) -> bool:
        """Whether there is enough for all threads while the engine decides. It takes no lock."""
        return self._turns.running + self._turns.runnable >= self._ahead * 3 // 4

    @property
    def pause(self) -> float | None:
        """Return the seconds after which a command may have a place that has none now.

        None: none waits for that.
        """
        full = self._turns.running >= self._ahead
        return None if full or not self._turns.ready else self._turns.pause

    def submit(self, command: Command) -> bool:
        """Queue a command, which ``pump`` sends. Return False when this pool is closed."""
        with self._lock:
            if self.closed:
                return False
            self._turns.add(command, command.execution_id, command.priority, self._clock())
        return True

    def done(self, commands: Iterable[Command]) -> None:
        """Note that commands have been run; send the next ones."""
        with self._lock:
            self._moved = self._clock()
            for command in commands:
                self._turns.done(command.execution_id)
        self.pump()
        if not self.loaded:
            self._starved()

    def pump(self) -> None:
        """Send what can be run now."""
        dropped: list[Command] = []
        with self._lock:
            found = self._next(dropped)
        if found:
            self._send(self, found)
        if dropped:
            self._dropped(dropped)

    def take(self, limit: int, only: tuple[int, str] | None = None) -> list[Command]:
        """Take commands that were not sent: at most ``limit``, or the one with the ids ``only``."""
        with self._lock:
            return take_waiting(self._turns, limit, only)

    def begin_taking_back(self) -> bool:
        """Return whether commands that were sent may be asked for: one message at a time."""
        with self._lock:
            may, self._taking_back = not (self._taking_back or self.closed), True
        return may

    def taken_back(self, commands: Collection[Command]) -> None:
        """Note that commands that were sent will not run there."""
        with self._lock:
            self._taking_back = False
            for command in commands:
                self._turns.undo(command.execution_id)

    def keep_wanted(self, commands: Collection[Command]) -> list[Command]:
        """Return the commands that have to be run still; the others are dropped."""
        wanted: list[Command] = []
        dropped: list[Command] = []
        for one in commands:
            (wanted if self._wanted(one) else dropped).append(one)
        if dropped:
            self._dropped(dropped)
        return wanted

    def wants(self, execution_id: int) -> bool:
        """Return whether a command of this execution waits or runs in this pool."""
        return self._turns.wants(execution_id)

    def end(self, execution_ids: Iterable[int]) -> None:
        """Note that these executions have ended: others may begin in their places."""
        if self._bounded:
            with self._lock:
                for execution_id in execution_ids:
                    self._turns.end(execution_id)
            self.look_again()

    def look_again(self) -> None:
        """Look again for places for waiting commands."""
        if self._bounded and self._turns:
            self.pump()

    def gauge(self) -> QueueGauge:
        """Return how many commands wait, and how many run."""
        with self._lock:
            ahead = max(0, self._turns.running - self.size)
            return QueueGauge(
                f"commands-{self.name}", self._turns.ready + ahead, self._turns.running - ahead, 0
            )

    def close(self) -> list[Command]:
        """Send nothing more. Return what was not sent."""
        with self._lock:
            self.closed = True
            return self._turns.take(1 << 62)

    def _has_waited(self, seconds: float) -> bool:
        """Return whether commands have no free thread, and none was run to its end for so long."""
        return self.behind > 0 and self._clock() - self._moved >= seconds

    def _next(self, dropped: list[Command]) -> list[Command]:
        found: list[Command] = []
        if self._turns.running < self.limit():
            self._moved = self._clock()
        while not self.closed and self._turns.running < self._ahead:
            command = self._turns.next(self._clock())
            if command is None:
                break
            if self._wanted(command):
                found.append(command)
            else:
                self._turns.done(command.execution_id)
                dropped.append(command)
        return found
