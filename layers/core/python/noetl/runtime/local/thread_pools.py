"""Where commands run in this process: threads per pool, which take commands as ``services.worker.ready_commands`` chooses them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from noetl.domain.commands import Command
from noetl.domain.workers.process_need import Need
from noetl.ports.gauges import QueueGauge
from noetl.services.worker.ready_commands import Turns


class Pool:
    """``size`` threads. ``places`` and ``need``: see ``Turns``."""

    def __init__(
        self,
        name: str,
        size: int,
        run: Callable[[Command], None],
        places: int | None = None,
        need: Callable[[int], Need] = lambda execution_id: Need.NONE,
    ) -> None:
        self.name = name
        self.size = size
        self.run = run
        self.ready = threading.Condition()
        self.closed = False
        self.threads: list[threading.Thread] = []
        self._bounded = places is not None
        self._turns: Turns[Command] = Turns(None if places is None else max(places, size), need)
        self._clock = time.monotonic
        self._refused = 0
        """Threads that wait although something is ready, for which there is no place."""

    @property
    def idle(self) -> int:
        """Threads that neither run a command nor are going to take one that is ready. One that was told of it may take a while to move."""
        return max(0, len(self.threads) - self._turns.running - self._turns.ready)

    def submit(self, command: Command) -> None:
        """Start threads as work arrives, up to ``size``.

        Raises RuntimeError when there is none, and none can be started."""
        with self.ready:
            if not self.idle and len(self.threads) < self.size:
                thread = threading.Thread(target=self._work, name=f"noetl-{self.name}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    if not self.threads:
                        raise
                else:
                    self.threads.append(thread)
            self._turns.add(command, command.execution_id, command.priority, self._clock())
            self.ready.notify()

    def take(self, limit: int, only: tuple[int, str] | None = None) -> list[Command]:
        """At most ``limit`` commands that no thread has begun (or the one with these ids): somebody else runs them."""
        with self.ready:
            if only is None:
                return self._turns.take(limit)
            execution_id, command_id = only
            return self._turns.take_one(execution_id, lambda command: command.command_id == command_id)

    def wants(self, execution_id: int) -> bool:
        """Whether a command of this execution is ready or running here."""
        return self._turns.wants(execution_id)

    def end(self, execution_ids: Iterable[int]) -> None:
        """These executions have ended: others may begin in their places."""
        if self._bounded:
            with self.ready:
                for execution_id in execution_ids:
                    self._turns.end(execution_id)
                self._tell_refused()

    def look_again(self) -> None:
        """Executions need less than before: what waits for a place may have one."""
        # A thread that finds no place at this moment holds the lock, and is not counted in ``_refused`` before it waits.
        if self._bounded and self._turns:
            with self.ready:
                self._tell_refused()

    def _tell_refused(self) -> None:
        """Wake threads for what was refused a place. What is ready otherwise has a thread that was told of it, and may be on its way."""
        if self._refused:
            self.ready.notify(self._turns.ready)

    def gauge(self) -> QueueGauge:
        """How many commands wait, and run."""
        with self.ready:
            return QueueGauge(f"commands-{self.name}", self._turns.ready, self._turns.running, 0)

    def close(self, until: float) -> None:
        """Queued commands stay in the store; running ones are waited for until ``until`` (monotonic seconds)."""
        with self.ready:
            self.closed = True
            self._turns.take(sys.maxsize)
            self.ready.notify_all()
        for thread in self.threads:
            thread.join(timeout=max(0.0, until - time.monotonic()))

    def _work(self) -> None:
        while (command := self._take()) is not None:
            try:
                self.run(command)
            except BaseException as error:
                # The thread serves the next command: one that had ended would still count as idle, and commands would wait for it.
                report_defect(error)
            finally:
                with self.ready:
                    self._turns.done(command.execution_id)

    def _take(self) -> Command | None:
        with self.ready:
            while not self.closed:
                if (command := self._turns.next(self._clock())) is not None:
                    return command
                self._wait()
            return None

    def _wait(self) -> None:
        pause = self._turns.pause
        self._refused += pause is not None
        try:
            self.ready.wait(pause)
        finally:
            self._refused -= pause is not None


def report_defect(error: BaseException) -> None:
    """Report what this thread raised as Python reports it of a thread that ends.

    The thread goes on, also when standard error takes no report.
    """
    told = (type(error), error, error.__traceback__, threading.current_thread())
    with suppress(Exception):
        threading.excepthook(threading.ExceptHookArgs(told))


def leave_waiting(pools: Collection[Pool]) -> list[Command]:
    """Leave the commands that no thread has begun to whoever claims them, and give them. Those whose work goes on elsewhere
    stay: if they are not wanted any more, nobody claims them, and it is ended here."""
    left = []
    for pool in pools:
        for one in pool.take(sys.maxsize):
            if one.remote:
                pool.submit(one)
            else:
                left.append(one)
    return left
