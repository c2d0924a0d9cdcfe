"""The worker processes of a process with an engine: started under load, ended when there is none.

One interpreter runs one thread at a time. Engine and workers in one process therefore share one processor. Under load, other
processes run the commands, and this one decides. A command alone is run here: the way to another process and back takes longer.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol

from noetl.domain.commands import Command
from noetl.runtime.local.worker_process.pool import ProcessPool
from noetl.runtime.local.worker_process.process import WorkerProcess

BUSY = 4
"""Commands that wait or run, from which on others go to a worker process."""
CROWDED = 300
"""Commands that were begun beside so many others, after which a process is started."""
IDLE_SECONDS = 60.0
"""A process without commands ends after this time."""
RESTART_SECONDS = (1.0, 5.0, 30.0, 60.0)
"""Pauses after processes that ended by themselves, one after the other."""
REMEMBERED = 100_000
"""Executions whose place is remembered."""


class Pools(Protocol):
    """Counts the commands of this process itself."""

    def __call__(self) -> int:
        """Count the commands that wait or run. It takes no lock."""


class WorkerProcesses:
    """Chooses where commands run. Threads may share it.

    ``most``: how many processes. ``make``: makes the next one, which is not started. ``here``: counts the commands
    that this process runs itself.
    """

    def __init__(
        self, most: int, make: Callable[[], WorkerProcess], here: Pools, log: Callable[[str], None]
    ) -> None:
        self._most, self._make, self._here, self._log = most, make, here, log
        self._workers: tuple[WorkerProcess, ...] = ()
        self._places: OrderedDict[int, WorkerProcess | None] = OrderedDict()
        """Where executions run that keep a process for their code; None: here."""
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._crowded = 0
        self._closed = False
        self._deaths = 0
        self._not_before = 0.0

    @property
    def pools(self) -> Iterator[ProcessPool]:
        """All pools of all processes."""
        for worker in self._workers:
            yield from worker.pools.values()

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    def takes(self) -> bool:
        """Return whether a command that comes now goes to a worker process. It takes no lock."""
        return bool(self._workers) and self._load() >= BUSY

    def pool_for(self, command: Command) -> ProcessPool | None:
        """Choose the pool of a worker process for a command; None: this process runs it."""
        if not self._most or command.remote:
            return None
        if command.lost:
            # A process died while it ran this command: that is not to be the one with the engine.
            self._have_one()
            busy = True
        else:
            busy = self._load() >= BUSY
            self._note_crowd(busy)
        if not self._workers:
            return None
        worker = self._place(command, busy)
        return None if worker is None else worker.pools.get(command.pool) or worker.pools["io"]

    def pump(self) -> None:
        """Send what can be run now."""
        for pool in self.pools:
            if pool.waits:
                pool.pump()

    def tell_over(self, executions: Collection[int], runs: Iterable[tuple[int, int]]) -> None:
        """Tell the processes what is not wanted any more."""
        workers = self._workers
        if not workers:
            return
        runs = list(runs)
        with self._lock:
            placed = [(one, self._places.pop(one)) for one in executions if one in self._places]
        for worker in workers:
            # An execution whose place is not known has no more than a chunk of a loop there.
            ended = [one for one in executions if worker.has(one)]
            ended += [one for one, place in placed if place is worker and one not in ended]
            worker.tell_over(ended, runs)

    def tidy(self) -> None:
        """End processes that have had no command for a while."""
        now = time.monotonic()
        for worker in self._workers:
            if not worker.load and now - worker.used > IDLE_SECONDS:
                self._remove(worker)
                worker.close(now)

    def gone(self, worker: WorkerProcess) -> None:
        """Note that a process has ended by itself. Another is started after a pause, under load."""
        self._remove(worker)
        with self._lock:
            pause = RESTART_SECONDS[min(self._deaths, len(RESTART_SECONDS) - 1)]
            self._deaths += 1
            self._not_before = time.monotonic() + pause

    def close(self, until: float) -> None:
        """End all, at ``until`` (monotonic seconds) at the latest."""
        with self._lock:
            self._closed = True
            workers, self._workers = self._workers, ()
        for worker in workers:
            worker.close(until)

    def _load(self) -> int:
        return self._here() + sum(worker.load for worker in self._workers)

    def _place(self, command: Command, busy: bool) -> WorkerProcess | None:
        if command.loop is not None or command.pool != "python":
            return self._least() if busy else None
        with self._lock:
            if command.execution_id in self._places:
                place = self._places[command.execution_id]
                if place is None or place in self._workers:
                    return place
            place = self._places[command.execution_id] = self._least() if busy else None
            if len(self._places) > REMEMBERED:
                self._places.popitem(last=False)
            return place

    def _least(self) -> WorkerProcess | None:
        return min(self._workers, key=lambda worker: worker.load, default=None)

    def _note_crowd(self, busy: bool) -> None:
        """Start a process when it has been needed for a while."""
        if not busy or len(self._workers) >= self._most:
            return
        self._crowded += 1
        if self._crowded >= CROWDED and time.monotonic() >= self._not_before:
            self._crowded = 0
            threading.Thread(target=self._start, name="noetl-worker-process-start", daemon=True).start()

    def _have_one(self) -> None:
        """Start a process, and wait for it, if there is none."""
        if not self._workers:
            self._start(first=True)

    def _start(self, first: bool = False) -> None:
        """Start a process. ``first``: only when there is none."""
        with self._starting:
            if self._closed or len(self._workers) >= (1 if first else self._most):
                return
            try:
                worker = self._make()
                if worker.start():
                    with self._lock:
                        if not self._closed:
                            self._workers = (*self._workers, worker)
                            return
                worker.close(0.0)
            except (OSError, RuntimeError) as error:
                self._log(f"no worker process could be started: {error}")
                self._not_before = time.monotonic() + RESTART_SECONDS[-1]

    def _remove(self, worker: WorkerProcess) -> None:
        with self._lock:
            self._workers = tuple(one for one in self._workers if one is not worker)
