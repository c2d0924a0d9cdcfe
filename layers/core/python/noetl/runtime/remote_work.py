"""Commands of this process that workers run elsewhere: taken from its pools, leased in memory, given to others when a worker falls silent.

In the store all of them are this process's, so nothing is lost when it ends: whoever adopts them runs them as another attempt, and the
fence drops what their first worker says after that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError
from noetl.domain.events import CommandDone, Event, ItemsDone
from noetl.ports.execution_store import Published
from noetl.ports.workers import WorkerPool
from noetl.runtime.local import LocalRuntime

LEASE_SECONDS = 60.0
FORGET_SECONDS = 600.0
"""After which a worker that never said goodbye is not listed any more."""
MOST_WORKERS = 1000
Key = tuple[int, str, int, int]


@dataclass(slots=True)
class _Worker:
    name: str
    pool: str
    capacity: int
    principal: str
    registered_at: float
    seen_at: float


@dataclass(slots=True)
class _Lease:
    command: Command
    worker: str
    until: float


class RemoteWork:
    """``clock``: epoch seconds. ``close`` ends what ``start`` began."""

    def __init__(
        self,
        runtime: LocalRuntime,
        *,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.lease_seconds = lease_seconds
        self._runtime, self._clock = runtime, clock
        self._workers: dict[str, _Worker] = {}
        self._leases: dict[Key, _Lease] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="noetl-leases", daemon=True)

    def start(self) -> None:
        """From now on, leases that are over are noticed."""
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(timeout=5.0)

    # --- workers ---

    def register(self, name: str, pool: str, capacity: int, principal: str) -> WorkerPool:
        if pool not in self._runtime.pools:
            raise InvalidInputError(
                f"there is no pool {pool[:40]!r}",
                code="pool_unknown",
                hint=f"pools are {', '.join(sorted(self._runtime.pools))}",
            )
        now = self._clock()
        with self._lock:
            known = self._workers.get(name)
            if known is None and len(self._workers) >= MOST_WORKERS:
                raise InvalidInputError(f"there are {MOST_WORKERS} workers already", code="too_many_workers")
            if known is not None and known.principal != principal:
                raise InvalidInputError(
                    f"{name!r} is the name of somebody else's worker", code="worker_name_taken"
                )
            began = now if known is None else known.registered_at
            self._workers[name] = _Worker(name, pool, capacity, principal, began, now)
            return self._view(self._workers[name])

    def heartbeat(self, name: str) -> WorkerPool:
        with self._lock:
            return self._view(self._seen(name))

    def deregister(self, name: str) -> None:
        with self._lock:
            self._seen(name)
            del self._workers[name]
            held = [key for key, lease in self._leases.items() if lease.worker == name]
            commands = [self._leases.pop(key).command for key in held]
        self._free(commands)

    def entries(self) -> Sequence[WorkerPool]:
        with self._lock:
            return [self._view(self._workers[name]) for name in sorted(self._workers)]

    def _seen(self, name: str) -> _Worker:
        """Under the lock. Raises NotFoundError."""
        worker = self._workers.get(name)
        if worker is None:
            raise NotFoundError(
                f"there is no worker {name[:80]!r}",
                code="worker_not_found",
                hint="register it (again): POST /api/worker/pool/register",
            )
        worker.seen_at = self._clock()
        return worker

    def _view(self, worker: _Worker) -> WorkerPool:
        return WorkerPool(
            worker.name,
            worker.pool,
            worker.capacity,
            worker.principal,
            worker.registered_at,
            worker.seen_at,
            self._count(worker.name),
        )

    def _count(self, name: str) -> int:
        return sum(lease.worker == name for lease in self._leases.values())

    # --- commands ---

    def claim(self, name: str, limit: int) -> Sequence[Command]:
        with self._lock:
            worker = self._seen(name)
            free = min(limit, worker.capacity - self._count(name))
            commands = self._runtime.pools[worker.pool].take(free)
            until = self._clock() + self.lease_seconds
            for command in commands:
                self._leases[_key(command)] = _Lease(command, name, until)
            return commands

    def sign_of_life(self, execution_id: int, command_id: str, attempt: int, turn: int) -> None:
        """Of a command; of one that nobody has it says nothing."""
        with self._lock:
            lease = self._leases.get((execution_id, command_id, attempt, turn))
            if lease is not None:
                lease.until = self._clock() + self.lease_seconds

    def give_back(self, execution_id: int, command_id: str, attempt: int, turn: int) -> None:
        with self._lock:
            lease = self._leases.pop((execution_id, command_id, attempt, turn), None)
        if lease is not None:
            self._free([lease.command])

    def answered(self, event: Event) -> None:
        """What a worker has said is on its way to the engine: its command is over, or it lives."""
        if not isinstance(event, (CommandDone, ItemsDone)):
            return
        key = (event.execution_id, event.command_id, event.attempt, event.turn)
        if isinstance(event, CommandDone) or event.closed or event.rest is not None:
            with self._lock:
                self._leases.pop(key, None)
        else:
            self.sign_of_life(*key)

    def _free(self, commands: Sequence[Command]) -> None:
        """Nobody's, and so adopted at once, as the next attempt."""
        if commands:
            owner = self._runtime.owner
            self._runtime.store.hand_over(owner, Published(), Published(commands=commands))
            self._runtime.keeper.adopt()

    def _watch(self) -> None:
        while not self._closed.wait(self.lease_seconds / 6):
            now = self._clock()
            with self._lock:
                over = {key: lease for key, lease in self._leases.items() if lease.until < now}
                for key in over:
                    del self._leases[key]
                for name in [w.name for w in self._workers.values() if w.seen_at < now - FORGET_SECONDS]:
                    del self._workers[name]
            try:
                self._free([lease.command for lease in over.values()])
            except InfrastructureError as away:
                self._runtime.log(f"{len(over)} command(s) of silent workers wait for the database: {away}")
                with self._lock:
                    self._leases |= over


def _key(command: Command) -> Key:
    return command.execution_id, command.command_id, command.attempt, command.turn
