"""Workers over HTTP in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noetl.adapters.command_state import held, unclaimed
from noetl.adapters.memory.execution_store import MemoryExecutionStore
from noetl.adapters.memory.tables import CommandEntry, Tables
from noetl.domain import ids
from noetl.domain.text.timestamps import Timestamp
from noetl.domain.workers import lease_owners
from noetl.ports.workers import (
    STALE_SECONDS,
    CommandState,
    Registered,
    RunningCommand,
    Seen,
    WorkerPool,
)


@dataclass(slots=True)
class _Worker:
    pool: str
    capacity: int
    principal: str
    registered_at: float
    seen_at: float


class MemoryWorkers:
    """Of the commands of ``store``."""

    def __init__(self, store: MemoryExecutionStore) -> None:
        self._store = store
        self._workers: dict[str, _Worker] = {}

    def register(self, name: str, pool: str, capacity: int, principal: str, most: int) -> Registered:
        with self._store.tables() as tables:
            now, known = tables.clock(), self._workers.get(name)
            if known is None and len(self._workers) >= most:
                return "full"
            if known is not None and known.principal != principal:
                return "taken"
            began = now if known is None else known.registered_at
            self._workers[name] = _Worker(pool, capacity, principal, began, now)
            return "registered"

    def seen(self, name: str, keep_seconds: float, principal: str = "") -> Seen | None:
        with self._store.tables() as tables:
            worker, now = self._workers.get(name), tables.clock()
            if worker is None or principal not in ("", worker.principal):
                return None
            worker.seen_at = now
            if keep_seconds > 0:
                kept = lease_owners.offered(worker.pool)
                tables.leases[kept] = max(tables.leases.get(kept, 0.0), now + keep_seconds)
            return Seen(_view(tables, name, worker), now)

    def entries(self) -> Sequence[WorkerPool]:
        with self._store.tables() as tables:
            return [_view(tables, name, self._workers[name]) for name in sorted(self._workers)]

    def drop(self, name: str, principal: str = "") -> bool:
        with self._store.tables() as tables:
            worker = self._workers.get(name)
            if worker is None or principal not in ("", worker.principal):
                return False
            del self._workers[name]
            for entry in _commands(tables):
                if lease_owners.leaseholder(entry.owner or "") == (worker.pool, name):
                    entry.owner = lease_owners.lease(-1.0, worker.pool, name)
            return True

    def extend(self, execution_id: int, command_id: str, attempt: int, turn: int, seconds: float) -> bool:
        with self._store.tables() as tables:
            found = _leased(tables, execution_id, command_id, attempt, turn)
            if found is None:
                return False
            entry, (pool, name) = found
            entry.owner = lease_owners.lease(tables.clock() + seconds, pool, name)
            if name in self._workers:
                self._workers[name].seen_at = tables.clock()
            return True

    def give_back(self, execution_id: int, command_id: str, attempt: int, turn: int) -> bool:
        with self._store.tables() as tables:
            found = _leased(tables, execution_id, command_id, attempt, turn)
            if found is not None:
                _free(tables, found[0], found[1][0])
            return found is not None

    def free(self, pool: str, worker: str) -> bool:
        with self._store.tables() as tables:
            found = [
                entry
                for work in tables.work.values()
                for entry in work.commands.values()
                if not entry.waiting and lease_owners.leaseholder(entry.owner or "") == (pool, worker)
            ]
            for entry in found:
                entry.owner = None
            return bool(found)

    def state(self, execution_id: int, command_id: str) -> CommandState:
        with self._store.tables() as tables:
            execution = tables.executions.get(execution_id)
            if execution is None:
                return unclaimed(None, False)
            work, now = tables.work[execution_id], tables.clock()
            entry = work.commands.get(command_id)
            if entry is None:
                done = ids.outcome_event(command_id, 0) in work.history or any(
                    command_id.startswith(f"{run}.r{round_}.") for run, round_ in work.loops
                )
                return unclaimed(execution.status, done)
            owner = entry.owner or ""
            lease = tables.leases.get(owner)
            left = None if lease is None else lease - now
            due_in = entry.not_before - now
            return held(execution.status, owner, entry.waiting, due_in, tables.alive(entry.owner), left, now)

    def forget(self, older_than_seconds: float) -> None:
        with self._store.tables() as tables:
            until = tables.clock() - older_than_seconds
            self._workers = {name: one for name, one in self._workers.items() if one.seen_at >= until}


def _commands(tables: Tables) -> Iterator[CommandEntry]:
    for work in tables.work.values():
        yield from (entry for entry in work.commands.values() if not entry.waiting)


def _leased(
    tables: Tables, execution_id: int, command_id: str, attempt: int, turn: int
) -> tuple[CommandEntry, tuple[str, str]] | None:
    work = tables.work.get(execution_id)
    entry = work.commands.get(command_id) if work is not None else None
    if entry is None or (entry.attempt, entry.turn) != (attempt, turn):
        return None
    holder = lease_owners.leaseholder(entry.owner or "")
    return None if holder is None else (entry, holder)


def _free(tables: Tables, entry: CommandEntry, pool: str) -> None:
    kept = tables.alive(lease_owners.offered(pool))
    entry.owner = lease_owners.offered(pool) if kept else None
    entry.attempt += kept


def _view(tables: Tables, name: str, worker: _Worker) -> WorkerPool:
    now = tables.clock()
    running = [
        RunningCommand(
            str(entry.execution_id),
            entry.command_id,
            entry.attempt,
            entry.turn,
            (lease_owners.until(entry.owner or "") or now) - now,
        )
        for entry in sorted(_commands(tables), key=lambda entry: entry.order)
        if lease_owners.leaseholder(entry.owner or "") == (worker.pool, name) and tables.alive(entry.owner)
    ]
    return WorkerPool(
        name,
        worker.pool,
        worker.capacity,
        worker.principal,
        Timestamp(worker.registered_at),
        Timestamp(worker.seen_at),
        len(running),
        worker.seen_at > now - STALE_SECONDS,
        running,
    )
