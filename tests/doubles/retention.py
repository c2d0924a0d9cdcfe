"""What goes from memory when its time is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from noetl.adapters.memory.execution_store import MemoryExecutionStore
from noetl.adapters.memory.execution_trees import (
    children,
    is_wanted,
    leaves_first,
    over_at,
    root_of,
    tree_is_old,
)
from noetl.adapters.memory.tables import ExecutionEntry, Tables
from noetl.ports.executions.retention import NOTHING, Expired, HistoryLayout, Listed, Removed
from tests.doubles.schedule_store import MemoryScheduleStore


class MemoryRetention:
    """``forget``: cached credentials of an execution."""

    def __init__(
        self,
        store: MemoryExecutionStore,
        schedules: MemoryScheduleStore,
        forget: Callable[[int], object] = lambda execution_id: None,
    ) -> None:
        self._store = store
        self._schedules = schedules
        self._forget = forget

    def claim(self, before: float, limit: int) -> Sequence[int]:
        with self._store.tables() as tables:
            roots = _old_roots(tables, before, limit)
            found = _leaves_first(tables, roots, limit)
            for entry in (*roots, *found):
                entry.leaving = True
            return [entry.execution_id for entry in found]

    def old(self, before: float, limit: int) -> Sequence[int]:
        with self._store.tables() as tables:
            found = _leaves_first(tables, _old_roots(tables, before, limit), limit)
            return [entry.execution_id for entry in found]

    def remove_events(self, execution_ids: Sequence[int], limit: int) -> int:
        with self._store.tables() as tables:
            rows = [
                (history, event_id)
                for entry in _leaving(tables, execution_ids)
                for history in [tables.work[entry.execution_id].history]
                for event_id in history
            ][:limit]
            for history, event_id in rows:
                del history[event_id]
            return len(rows)

    def remove(self, execution_ids: Sequence[int], deferred: range = NOTHING) -> Removed:
        gone, going = Removed(), []
        with self._store.tables() as tables:
            for entry in list(_leaving(tables, execution_ids)):
                started = {one.execution_id for one in children(tables, entry.execution_id)}
                if not started <= set(execution_ids):
                    continue
                going.append(entry.execution_id)
                work = tables.work.pop(entry.execution_id)
                gone += Removed(1, len(work.history), len(work.variables))
                tables.outbox = {
                    key: row for key, row in tables.outbox.items() if key[0] != entry.execution_id
                }
                tables.uses = {key: kept for key, kept in tables.uses.items() if key[0] != entry.execution_id}
                tables.keys = {
                    key: kept for key, kept in tables.keys.items() if kept[0] != entry.execution_id
                }
                _forget_results(tables, entry.execution_id)
                self._forget(entry.execution_id)
            for execution_id in going:
                del tables.executions[execution_id]
        return gone

    def partition_history(self, now: float, kept: float) -> HistoryLayout:
        return HistoryLayout()

    def drop_history(self, before: float, overdue: float) -> bool:
        return False

    def claim_expired(self, now: float, after: int, limit: int) -> Expired:
        with self._store.tables() as tables:
            owners = sorted(
                {
                    execution_id
                    for (execution_id, _), entry in tables.results.items()
                    if execution_id > after and entry.kept.ttl is not None
                }
            )[:limit]
            found = [one for execution_id in owners for one in _expired(tables, execution_id, now)]
            return Expired(tuple(found), owners[-1] if owners else None)

    def permanent(self, before: float, limit: int) -> Sequence[Listed]:
        with self._store.tables() as tables:
            found = [
                (entry.created_at, (*key, entry.kept.store))
                for key, entry in tables.results.items()
                if entry.kept.ttl is None and entry.created_at < before
            ]
        return [one for _, one in sorted(found)[:limit]]

    def forget_results(self, results: Sequence[Listed]) -> int:
        with self._store.tables() as tables:
            return sum(tables.results.pop((one, ref), None) is not None for one, ref, _ in results)

    def remove_variables(self, before: float, limit: int) -> int:
        count = 0
        with self._store.tables() as tables:
            for entry in tables.executions.values():
                if entry.ended_at is None or entry.ended_at >= before:
                    continue
                variables = tables.work[entry.execution_id].variables
                for name in list(variables)[: limit - count]:
                    del variables[name]
                    count += 1
        return count

    def remove_moments(self, before: float, limit: int) -> int:
        return self._schedules.forget_moments(before, limit)


def _old_roots(tables: Tables, before: float, limit: int) -> list[ExecutionEntry]:
    """Roots whose removal has begun, then those whose trees may go, the oldest first."""
    roots = [entry for entry in tables.executions.values() if entry.created.parent_execution_id is None]
    leaving = [entry for entry in roots if entry.leaving]
    old = [
        entry
        for entry in roots
        if not entry.leaving and tree_is_old(tables, entry, before) and not is_wanted(tables, entry)
    ]
    old.sort(key=lambda entry: entry.ended_at or 0.0)
    return [*leaving, *old][:limit]


def _leaves_first(tables: Tables, roots: Sequence[ExecutionEntry], limit: int) -> list[ExecutionEntry]:
    members = chain.from_iterable(leaves_first(tables, root) for root in roots)
    found = sorted(islice(members, limit), key=lambda one: (-one[1], one[0].execution_id))
    return [entry for entry, _ in found]


def _leaving(tables: Tables, execution_ids: Sequence[int]) -> Iterator[ExecutionEntry]:
    for execution_id in execution_ids:
        entry = tables.executions.get(execution_id)
        if entry is not None and entry.leaving and entry.ended_at is not None:
            yield entry


def _expired(tables: Tables, execution_id: int, now: float) -> list[Listed]:
    """Results of an execution whose time is over: they are being removed from now on."""
    owner, root = tables.executions.get(execution_id), root_of(tables, execution_id)
    if owner is None or owner.ended_at is None or root is None:
        return []
    over = over_at(tables, root)
    found = []
    for key, entry in tables.results.items():
        if key[0] != execution_id or entry.kept.ttl is None:
            continue
        entry.leaving = entry.leaving or (over is not None and over + entry.kept.ttl <= now)
        if entry.leaving:
            found.append((*key, entry.kept.store))
    return found


def _forget_results(tables: Tables, execution_id: int) -> None:
    """What is known of results goes with their execution, but for those that stay."""
    tables.holds = {hold for hold in tables.holds if execution_id not in hold}
    tables.results = {
        key: entry
        for key, entry in tables.results.items()
        if key[0] != execution_id or entry.kept.ttl is None
    }
