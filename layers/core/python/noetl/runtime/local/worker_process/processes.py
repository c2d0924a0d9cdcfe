"""The worker processes of a process with an engine, which run commands under load.

One interpreter runs one thread at a time. Engine and workers in one process therefore share one processor. Under load, other
processes run the commands, and this one decides. Without them it runs the commands itself: the way to another process and back takes
longer than a decision.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from noetl.domain.commands import Command
from noetl.runtime.local.worker_process.pool import STALLED_SECONDS, ProcessPool
from noetl.runtime.local.worker_process.process import START_SECONDS, WorkerProcess
from noetl.services.worker.ready_commands import PATIENCE

BUSY = 4
"""Commands that wait or run, from which on a command counts as begun beside others."""
CROWDED = 300
"""Commands that were begun beside others, after which a process is started."""
IDLE_SECONDS = 20.0
"""A process without commands ends after this time."""
RESTART_SECONDS = (1.0, 5.0, 30.0, 60.0)
"""Pauses after processes that ended by themselves, one after the other."""
REMEMBERED = 100_000
"""Executions whose processes are remembered."""
SEPARATE = "python"
"""The pool whose executions keep a child process for their code, so that each stays in one worker process while it can."""


class WorkerProcesses:
    """Chooses where commands run: in worker processes when there are some, here otherwise.

    Threads may share it.

    ``most``: how many processes. ``make``: makes the process of a place (0, 1, …); it is not started. ``load``: counts
    the commands that wait or run here; it takes no lock. ``again``: is called when commands that wait may have another
    place, with commands that have none.
    """

    def __init__(
        self,
        most: int,
        make: Callable[[int], WorkerProcess],
        load: Callable[[], int],
        again: Callable[[Collection[Command]], object],
        log: Callable[[str], None],
    ) -> None:
        self.most = most
        self._make, self._load, self._again, self._log = make, load, again, log
        self._workers: tuple[WorkerProcess, ...] = ()
        self._retired: list[WorkerProcess] = []
        self._homes: OrderedDict[int, list[WorkerProcess]] = OrderedDict()
        """By execution, of those that keep a child process for their code: where that has run, and may be kept. The next code goes to
        the last of them."""
        self._lock, self._starting = threading.Lock(), threading.Lock()
        self._crowded, self._deaths = 0, 0
        self._closed = False
        self._not_before = self._none_before = self._started = -math.inf

    def __bool__(self) -> bool:
        """Return whether worker processes run the commands. It takes no lock."""
        return bool(self._workers)

    @property
    def pools(self) -> Iterator[ProcessPool]:
        """All pools of all processes."""
        for worker in self._workers:
            yield from worker.pools.values()

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    def pool_for(self, command: Command) -> ProcessPool | None:
        """Choose the pool of a worker process for a command; None: this process runs it."""
        if not self.most or command.remote:
            return None
        if command.lost:
            # A process died while it ran this command: that is not to be the one with the engine.
            self._have_one(command.pool)
        elif len(self._workers) < self.most:
            self._note_crowd()
        return self._chosen(command) if self._workers else None

    def pump(self) -> None:
        """Send what can be run now."""
        for pool in self.pools:
            if pool.waits:
                pool.pump()

    def resize(self, name: str) -> None:
        """Send the processes how many commands of a pool they may run now."""
        for worker in self._all():
            if name in worker.pools:
                worker.resize(worker.pools[name])

    def marks(self) -> dict[WorkerProcess, int]:
        """Return the number of the last command of each process. It takes no lock."""
        return {worker: worker.last for worker in self._all()}

    def withdraw(
        self,
        executions: Collection[int],
        runs: Iterable[tuple[int, int]],
        marks: Mapping[WorkerProcess, int],
    ) -> None:
        """Withdraw from the processes what is not wanted any more.

        ``marks``: of the moment when it was noted. Commands that were sent later are wanted.
        """
        if not marks:
            return
        dropped = list(runs)
        with self._lock:
            homes = {one: self._homes.pop(one) for one in executions if one in self._homes}
        for worker, last in marks.items():
            ended = [one for one in executions if worker in homes.get(one, ()) or worker.has(one)]
            worker.withdraw(ended, dropped, last)

    def tidy(self) -> None:
        """End the processes when none has had a command for a while."""
        now = time.monotonic()
        workers = self._workers
        if workers and all(not one.load and now - one.used > IDLE_SECONDS for one in workers):
            with self._lock:
                self._workers, self._crowded = (), 0
                self._retired += workers
                self._homes.clear()
            for worker in workers:
                # A command may have come in this moment: it is run to its end.
                self._again(worker.retire())
                threading.Thread(
                    target=self._finish, args=(worker,), name="noetl-worker-process-end", daemon=True
                ).start()

    def gone(self, worker: WorkerProcess) -> None:
        """Note that a process has ended by itself. Another is started after a pause, under load."""
        with self._lock:
            self._workers = tuple(one for one in self._workers if one is not worker)
            for execution_id in [one for one, homes in self._homes.items() if worker in homes]:
                self._homes[execution_id].remove(worker)
                if not self._homes[execution_id]:
                    del self._homes[execution_id]
            now = time.monotonic()
            if now - self._started > RESTART_SECONDS[-1]:
                self._deaths = 0
            self._not_before = now + RESTART_SECONDS[min(self._deaths, len(RESTART_SECONDS) - 1)]
            self._deaths += 1

    def close(self, until: float) -> None:
        """End all, at ``until`` (monotonic seconds) at the latest."""
        with self._lock:
            self._closed = True
            workers = (*self._workers, *self._retired)
            self._workers = ()
        for worker in workers:
            worker.close(until)

    def _finish(self, worker: WorkerProcess) -> None:
        worker.close(None)
        with self._lock, suppress(ValueError):
            self._retired.remove(worker)

    def _all(self) -> tuple[WorkerProcess, ...]:
        return (*self._workers, *self._retired)

    # --- the choice ---

    def _chosen(self, command: Command, left: WorkerProcess | None = None) -> ProcessPool | None:
        """Choose a pool.

        ``left``: the process that gave the command back, which is the last choice.
        """
        name = command.pool
        if name != SEPARATE:
            worker = self._least(name, left)
        else:
            with self._lock:
                worker = self._home(command, left)
                if worker is None:
                    worker = self._least(name, left)
                if worker is not None:
                    self._remember(command, worker)
        return None if worker is None else worker.pool(name)

    def _home(self, command: Command, left: WorkerProcess | None) -> WorkerProcess | None:
        """Return the process of an execution, unless a command would wait there for long ones."""
        homes = self._homes.get(command.execution_id)
        if not homes or command.loop is not None:
            return None
        home = homes[-1]
        if home is left or home not in self._workers:
            return None
        pool = home.pool(command.pool)
        return home if pool is not None and pool.limit() and not pool.stalled else None

    def _remember(self, command: Command, worker: WorkerProcess) -> None:
        homes = self._homes.setdefault(command.execution_id, [])
        if command.loop is None and homes and homes[-1] is not worker:
            with suppress(ValueError):
                homes.remove(worker)
            homes.append(worker)
        elif worker not in homes:
            homes.insert(0, worker)
        if len(self._homes) > REMEMBERED:
            self._homes.popitem(last=False)

    def _least(self, name: str, left: WorkerProcess | None = None) -> WorkerProcess | None:
        able = [(worker, pool) for worker in self._workers if (pool := worker.pool(name)) and not pool.closed]
        chosen = min(
            able,
            key=lambda one: (
                one[0] is left,
                not one[1].limit(),
                not one[1].free,
                one[1].stalled,
                one[0].load,
            ),
            default=None,
        )
        return None if chosen is None else chosen[0]

    # --- commands that wait behind others ---

    def relieve(self, worker: WorkerProcess) -> float:
        """Let a process run what waits behind other commands in another process.

        It takes as much as half for free threads, and one at a time without, where no other command is run to its end.
        Return the seconds after which to look again.
        """
        if worker not in self._workers:
            return PATIENCE
        others = [one for one in self._workers if one is not worker and one.load]
        pause = PATIENCE
        for name, pool in worker.pools.items():
            for other in others:
                full = other.pools.get(name)
                if full is None or not full.behind:
                    continue
                if pool.free:
                    pause, share = STALLED_SECONDS, max(pool.free, full.behind // 2)
                elif full.starves and pool.limit() and not pool.stalled:
                    share = 1
                else:
                    continue
                # Those that were sent have waited longest, and have the highest priority.
                if full.stalled:
                    other.take_back(full, share)
                if full.waits:
                    self._move(other, full.keep_wanted(full.take(share)))
        return pause

    def _move(self, left: WorkerProcess, commands: Collection[Command]) -> None:
        """Let other processes run commands that one has not begun."""
        refused = []
        for command in commands:
            chosen = self._chosen(command, left)
            if chosen is None or not chosen.submit(command):
                refused.append(command)
        self.pump()
        if refused and not self._closed:  # the processes have ended in this moment
            self._again(refused)

    # --- starts ---

    def _note_crowd(self) -> None:
        """Start processes when they have been needed for a while."""
        if self._load() < BUSY and not self._workers:
            return
        self._crowded += 1
        if self._crowded >= CROWDED and time.monotonic() >= self._not_before:
            self._crowded = 0
            threading.Thread(target=self._start, name="noetl-worker-process-start", daemon=True).start()

    def _have_one(self, name: str) -> None:
        """Start processes, and wait for them, if none runs commands of this pool.

        Not for a while after none was ready in time: callers hold leases meanwhile.
        """
        if self._least(name) is None and time.monotonic() >= self._none_before:
            self._start(name)

    def _start(self, name: str | None = None) -> None:
        """Start the processes that are missing.

        ``name``: unless one runs commands of that pool. All at once: each has a share of what may run, and this process
        runs nothing beside them.
        """
        with self._starting:
            if self._closed or (name is not None and self._least(name) is not None):
                return
            places = sorted(set(range(self.most)) - {one.place for one in self._workers})
            made = [worker for place in places if (worker := self._begun(place)) is not None]
            until = time.monotonic() + START_SECONDS
            able = [worker for worker in made if worker.is_ready(until)]
            if not able:
                self._none_before = time.monotonic() + RESTART_SECONDS[-1]
            with self._lock:
                if not self._closed:
                    self._workers = (*self._workers, *(one for one in able if not one.over))
                    self._started = time.monotonic()
            for worker in made:
                if worker not in self._workers:
                    worker.close(0.0)
        if self._workers:
            self._again(())

    def _begun(self, place: int) -> WorkerProcess | None:
        try:
            worker = self._make(place)
            worker.relieve = partial(self.relieve, worker)
            worker.returned = partial(self._move, worker)
            worker.start()
        except (OSError, RuntimeError) as error:
            self._log(f"a worker process could not be started: {error}")
            self._not_before = time.monotonic() + RESTART_SECONDS[-1]
            return None
        return worker
