"""What is outstanding in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from noetl.adapters.memory.execution_store import MemoryExecutionStore
from noetl.adapters.memory.tables import CommandEntry, Tables
from noetl.adapters.outstanding import Count, put_together
from noetl.domain.workers.lease_owners import HELD
from noetl.ports.executions.inspection import Backlog, OpenCommand, OpenWork, Outstanding


class MemoryInspection:
    """Looks into ``store``."""

    def __init__(self, store: MemoryExecutionStore) -> None:
        self._store = store

    def open_commands(self, execution_id: int, limit: int) -> Sequence[OpenCommand]:
        with self._store.tables() as tables:
            work = tables.work.get(execution_id)
            entries = sorted(work.commands.values(), key=lambda entry: entry.order) if work else []
            return [_open(tables, entry) for entry in entries[:limit]]

    def open_work(self, execution_id: int) -> OpenWork:
        with self._store.tables() as tables:
            since = [entry.since for key, entry in tables.outbox.items() if key[0] == execution_id]
            oldest = tables.clock() - min(since) if since else 0.0
            return OpenWork(self._store.open_work(execution_id), oldest)

    def outstanding(self, limit: int = 10_000) -> Outstanding:
        with self._store.tables() as tables:
            every = [entry for work in tables.work.values() for entry in work.commands.values()]
            looked = sorted(every, key=lambda entry: entry.order)[:limit]
            groups: defaultdict[tuple[str, str], list[CommandEntry]] = defaultdict(list)
            for entry in looked:
                groups[tables.command(entry).pool, entry.owner or ""].append(entry)
            counts = [_count(tables, *key, group) for key, group in sorted(groups.items())]
            timers = sum(len(work.timers) for work in tables.work.values())
            return put_together(counts, len(tables.outbox), timers, limit)

    def backlog(self, most: int) -> Backlog:
        with self._store.tables() as tables:
            now = tables.clock()
            events = sum(
                row.owner != HELD and not (row.owner or "").endswith(":later")
                for row in tables.outbox.values()
            )
            every = (entry for work in tables.work.values() for entry in work.commands.values())
            due = sum(
                not entry.waiting and entry.owner != HELD and entry.not_before <= now for entry in every
            )
            return Backlog(min(events, most), min(due, most))


def _open(tables: Tables, entry: CommandEntry) -> OpenCommand:
    return OpenCommand(
        entry.command_id,
        entry.run,
        entry.attempt,
        entry.turn,
        entry.waiting,
        entry.owner or "",
        tables.alive(entry.owner),
        tables.clock() - entry.not_before,
        entry.losses,
        tables.command(entry).remote,
    )


def _count(tables: Tables, pool: str, owner: str, group: list[CommandEntry]) -> Count:
    now = tables.clock()
    active = [entry for entry in group if not entry.waiting]
    due = sum(entry.not_before <= now for entry in active)
    lease = tables.leases.get(owner)
    return Count(
        pool,
        owner,
        due,
        len(active) - due,
        len(group) - len(active),
        max((now - entry.not_before for entry in active if entry.not_before <= now), default=0.0),
        tables.alive(owner or None),
        None if lease is None else lease - now,
    )
