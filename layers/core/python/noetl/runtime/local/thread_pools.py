"""Pools of worker threads, which take commands in the order of ``ready_commands``."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from noetl.domain.commands import Command
from noetl.domain.workers.process_need import Need
from noetl.ports.gauges import QueueGauge
from noetl.services.worker.ready_commands import Turns
from noetl.system_calls.deferred_work import deferring

LOADED = 3
"""Commands for each thread, the running ones among them, with which a pool is loaded."""


class Pool:
    """A pool of up to ``size`` threads that run commands.

    ``places`` and ``need``: see ``Turns``. ``starved``: is called when the pool is not loaded any more. ``then``: is
    called by a thread after each command, before the thread takes the next one, with whether a command waits for it.
    ``ran``: is called with the name of the pool when one command less runs.
    """

    def __init__(
        self,
        name: str,
        size: int,
        run: Callable[[Command], None],
        places: int | None = None,
        need: Callable[[int], Need] = lambda execution_id: Need.NONE,
        starved: Callable[[], object] = lambda: None,
        then: Callable[[bool], object] = lambda waits: None,
        ran: Callable[[str], object] = lambda name: None,
    ) -> None:
        self.name = name
        self.size = size
        self.run = run
        self._starved, self._then, self._ran = starved, then, ran
        self.ready = threading.Condition()
        self.closed = False
        self.threads: list[threading.Thread] = []
        self._bounded = places is not None
        self._turns: Turns[Command] = Turns(None if places is None else max(places, size), need)
        self._clock = time.monotonic
        self._refused = 0
        """Threads that wait although a command is ready, because there is no place for it."""
        self._lent = False
        """A thread outside of the pool runs a command in the place of one of its threads."""
        self._returning: set[int] = set()
        """Threads that take a command in a moment, and for which there is none yet."""

    @property
    def idle(self) -> int:
        """Count the threads that run no command and will take none that is ready.

        A thread that was notified of a command may take a while to move.
        """
        return max(0, len(self.threads) - self._turns.running - self._turns.ready)

    @property
    def free(self) -> int:
        """Count the threads, started or not, for which there is no command. It takes no lock."""
        return self.size - self._turns.running - self._turns.runnable

    @property
    def running(self) -> int:
        """Count the commands that run. It takes no lock."""
        return self._turns.running

    @property
    def load(self) -> int:
        """Count the commands that wait or run. It takes no lock."""
        return self._turns.running + self._turns.ready

    @property
    def loaded(self) -> bool:
        """Whether there is enough for all threads while the engine decides. It takes no lock.

        A thread that was notified of a command may take a while to move, so those that run none are not looked at.
        """
        return self._turns.running + self._turns.runnable >= LOADED * self.size > 0

    def submit(self, command: Command, apart: bool = False) -> None:
        """Queue a command, and start a thread for it while there are fewer than ``size``.

        A thread of this pool that submits one after its own takes it, unless it is to run ``apart``. Raises RuntimeError
        when the pool has no thread, and none can be started.
        """
        with self.ready:
            own = threading.get_ident()
            if own in self._returning and not apart:
                self._returning.remove(own)
                self._turns.add(command, command.execution_id, command.priority, self._clock())
                return
            if not self.idle and len(self.threads) < self.size:
                try:
                    self._start_thread()
                except RuntimeError:
                    if not self.threads:
                        raise
            self._turns.add(command, command.execution_id, command.priority, self._clock())
            self.ready.notify()

    @contextmanager
    def lend(self) -> Iterator[bool]:
        """Let this thread run a command while the pool runs none.

        Yield False when there is a command: it goes first. A thread of this pool has its own place, after its command.
        """
        own = threading.get_ident() in self._returning
        with self.ready:
            free = self.size > 0 and self.load == own and not (self._lent or self.closed)
            if free and not own:
                self._lent = True
        try:
            yield free
        finally:
            if free and not own:
                with self.ready:
                    self._lent = False
                    if self._turns.ready:
                        self.ready.notify()

    def resize(self, size: int) -> None:
        """Run so many commands at once from now on. What runs already runs on.

        Raises RuntimeError when no more threads can be started.
        """
        with self.ready:
            self.size = size
            while len(self.threads) < min(size, self.load):
                self._start_thread()
            self.ready.notify_all()

    def take(self, limit: int, only: tuple[int, str] | None = None) -> list[Command]:
        """Take commands that no thread has begun, so that another process runs them.

        At most ``limit``, or the one with the ids ``only``.
        """
        with self.ready:
            return take_waiting(self._turns, limit, only)

    def is_cold(self, execution_id: int) -> bool:
        """Return whether a child process has to be started for an execution. It takes no lock."""
        return self._turns.is_cold(execution_id)

    def wants(self, execution_id: int) -> bool:
        """Return whether a command of this execution is ready or running in this pool."""
        return self._turns.wants(execution_id)

    def end(self, execution_ids: Iterable[int]) -> None:
        """Note that these executions have ended: others may begin in their places."""
        if self._bounded:
            with self.ready:
                for execution_id in execution_ids:
                    self._turns.end(execution_id)
                self._report_refused()

    def look_again(self) -> None:
        """Look again for places for waiting commands.

        Executions need less than before.
        """
        # A thread that finds no place at this moment holds the lock, and is not counted in ``_refused`` before it waits.
        if self._bounded and self._turns:
            with self.ready:
                self._report_refused()

    def _report_refused(self) -> None:
        """Wake threads for commands that were refused a place.

        Every other ready command has a thread that was notified of it, and may be on its way.
        """
        if self._refused:
            self.ready.notify(self._turns.ready)

    def gauge(self) -> QueueGauge:
        """Return how many commands wait, and how many run."""
        with self.ready:
            return QueueGauge(f"commands-{self.name}", self._turns.ready, self._turns.running, 0)

    def close(self, until: float) -> None:
        """Stop the threads; wait for running commands until ``until`` (monotonic seconds).

        Queued commands stay in the store.
        """
        with self.ready:
            self.closed = True
            self._turns.take(sys.maxsize)
            self.ready.notify_all()
        for thread in self.threads:
            thread.join(timeout=max(0.0, until - time.monotonic()))

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"noetl-{self.name}", daemon=True)
        thread.start()
        self.threads.append(thread)

    def _work(self) -> None:
        while (command := self._take()) is not None:
            try:
                with deferring():
                    self._run(command)
            except BaseException as error:
                # The thread serves the next command: a thread that had ended would still count as idle, and commands would wait for it.
                report_defect(error)
            finally:
                with self.ready:
                    self._returning.discard(threading.get_ident())
                    self._turns.done(command.execution_id)
                self._ran(self.name)

    def _run(self, command: Command) -> None:
        try:
            self.run(command)
        except BaseException as error:
            report_defect(error)
        self._returning.add(threading.get_ident())
        self._then(self._turns.runnable > len(self.threads) - self._turns.running)

    def _take(self) -> Command | None:
        with self.ready:
            while not self.closed:
                free = self._turns.running + self._lent < self.size
                if free and (command := self._turns.next(self._clock())) is not None:
                    if not self.loaded:
                        self._starved()
                    return command
                self._wait()
            return None

    def _wait(self) -> None:
        self._starved()
        pause = self._turns.pause
        self._refused += pause is not None
        try:
            self.ready.wait(pause)
        finally:
            self._refused -= pause is not None


def report_defect(error: BaseException) -> None:
    """Report what this thread raised, as Python reports it for a thread that ends.

    The thread continues, also when standard error takes no report.
    """
    hook_args = (type(error), error, error.__traceback__, threading.current_thread())
    with suppress(Exception):
        threading.excepthook(threading.ExceptHookArgs(hook_args))


def take_waiting(turns: Turns[Command], limit: int, only: tuple[int, str] | None) -> list[Command]:
    """Take commands that nothing has begun.

    At most ``limit``, or the one with the ids ``only``.
    """
    if only is None:
        return turns.take(limit)
    execution_id, command_id = only
    return turns.take_one(execution_id, lambda command: command.command_id == command_id)


class CommandQueue(Protocol):
    """Commands that can be taken away before they begin."""

    def take(self, limit: int) -> list[Command]:
        """Take commands that nothing has begun, at most ``limit``."""

    def submit(self, command: Command) -> object:
        """Queue a command."""


def leave_waiting(pools: Collection[CommandQueue]) -> list[Command]:
    """Remove and return the commands that no thread has begun: other processes may claim them.

    Commands that follow a job in another system stay: if they are no longer wanted, no other process claims them, and
    this one ends the job.
    """
    left = []
    for pool in pools:
        for one in pool.take(sys.maxsize):
            if one.remote:
                pool.submit(one)
            else:
                left.append(one)
    return left
