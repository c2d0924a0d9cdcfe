"""The pools of this process, and the commands that it has, counted by execution."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from noetl.domain.commands import Command
from noetl.domain.workers.process_need import Need
from noetl.kinds.sandbox.ended import report_ended
from noetl.kinds.sandbox.needed import kept_children
from noetl.ports.gauges import QueueGauge
from noetl.runtime.local.thread_pools import Pool
from noetl.runtime.local.worker_process.messages import Begin
from noetl.runtime.local.worker_process.pool import ProcessPool
from noetl.runtime.local.worker_process.process import Runtime, WorkerProcess
from noetl.runtime.local.worker_process.processes import WorkerProcesses

CODE = "python"
"""The pool whose executions keep a child process between their commands."""


class LocalCommands:
    """Commands that are ready or running in this process.

    ``decides``: whether the engine has an event of an execution.
    """

    def __init__(self, decides: Callable[[int], bool]) -> None:
        self._decides = decides
        self._commands: Counter[int] = Counter()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._commands)

    def __len__(self) -> int:
        with self._lock:
            return self._commands.total()

    def add(self, command: Command) -> None:
        with self._lock:
            self._commands[command.execution_id] += 1

    def remove(self, commands: Iterable[Command]) -> None:
        with self._lock:
            for command in commands:
                self._commands[command.execution_id] -= 1
                if not self._commands[command.execution_id]:
                    del self._commands[command.execution_id]

    def need(self, execution_id: int) -> Need:
        """Return how much an execution needs its child process. It takes no lock.

        For an execution of which nothing is ready or running in the pool of code.
        """
        if self._decides(execution_id):
            return Need.SOON
        return Need.ELSEWHERE if execution_id in self._commands else Need.NONE


def make_pools(
    sizes: Mapping[str, int],
    run: Callable[[Command], None],
    here: LocalCommands,
    starved: Callable[[], object],
    then: Callable[[bool], object],
    ran: Callable[[str], object],
) -> dict[str, Pool]:
    """Make the pools of a process, by name.

    ``sizes``: threads of each. ``starved``, ``then`` and ``ran``: see ``Pool``.
    """
    places = {CODE: kept_children()}
    return {
        name: Pool(name, size, run, places.get(name), here.need, starved, then, ran)
        for name, size in sizes.items()
    }


def loaded(pools: Mapping[str, Pool], processes: WorkerProcesses) -> bool:
    """Return whether a pool has more commands than threads. It takes no lock."""
    return any(pool.loaded for pool in every_pool(pools, processes))


def submit(
    command: Command,
    pools: Mapping[str, Pool],
    here: LocalCommands,
    processes: WorkerProcesses | None = None,
    apart: bool = False,
) -> None:
    """Let a thread of its pool run ``command``, here or in a worker process.

    ``apart``: another thread than this one. Raises RuntimeError when the pool has no thread, and none can be started.
    """
    here.add(command)
    try:
        pool = None if processes is None else processes.pool_for(command)
        if pool is None or not pool.submit(command):
            pools.get(command.pool, pools["io"]).submit(command, apart)
    except BaseException:
        here.remove([command])
        raise


def every_pool(pools: Mapping[str, Pool], processes: WorkerProcesses) -> list[Pool | ProcessPool]:
    """List the pools of this process and of its worker processes."""
    return [*pools.values(), *processes.pools]


def gauges(pools: Mapping[str, Pool], processes: WorkerProcesses) -> list[QueueGauge]:
    """Return how much waits and runs, by pool: in this process and in its worker processes."""
    found: dict[str, QueueGauge] = {}
    for pool in every_pool(pools, processes):
        gauge, known = pool.gauge(), found.get(pool.name)
        if known is not None:
            gauge = QueueGauge(
                known.name, known.waiting + gauge.waiting, known.in_flight + gauge.in_flight, 0
            )
        found[pool.name] = gauge
    return [found[name] for name in sorted(found)]


def make_process(
    begin: Begin,
    place: int,
    processes: int,
    runtime: Runtime,
    pools: Mapping[str, Pool],
    here: LocalCommands,
    starved: Callable[[], object],
) -> WorkerProcess:
    """Make a worker process with its pools; it is not started.

    It may run its share of the commands of a pool that may run at once, without those that run here still.
    ``place``: its number among as many ``processes``.
    """
    made = WorkerProcess(begin, runtime)
    made.place = place
    for name, size in begin.sizes.items():
        if size:
            places = kept_children() if name == CODE else None
            limit = partial(_left, name, pools[name], place, processes)
            made.pools[name] = ProcessPool(
                name, size, made.send, limit, places, here.need, runtime.is_wanted, runtime.finish, starved
            )
    return made


def _left(name: str, pool: Pool, place: int, processes: int) -> int:
    return share({name: max(0, pool.size - pool.running)}, place, processes)[name]


def share(sizes: Mapping[str, int], place: int, processes: int) -> dict[str, int]:
    """Return how many commands of each pool one of several processes runs at once.

    All together run as many as ``sizes`` says.
    """
    return {name: size // processes + (place < size % processes) for name, size in sizes.items()}


def need_in(pools: Mapping[str, Pool], here: LocalCommands) -> Callable[[int], Need]:
    """Return the function that says how much an execution needs its child process."""

    def need(execution_id: int) -> Need:
        return Need.NOW if pools[CODE].wants(execution_id) else here.need(execution_id)

    return need


def look_again(pools: Mapping[str, Pool], processes: WorkerProcesses) -> None:
    """Look again for waiting commands that may have a place, after the engine has decided.

    Executions that it decided about may need their child processes less.
    """
    for pool in every_pool(pools, processes):
        pool.look_again()


def forget(pools: Mapping[str, Pool], processes: WorkerProcesses, ended: Collection[int]) -> None:
    """Free what this process keeps for executions that have ended."""
    report_ended(ended)
    for pool in every_pool(pools, processes):
        pool.end(ended)
