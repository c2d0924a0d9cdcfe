"""What goes from memory when its time is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from noetl.adapters.memory.execution_store import MemoryExecutionStore
from noetl.adapters.memory.schedule_store import MemoryScheduleStore
from noetl.adapters.memory.tables import ExecutionEntry, Tables
from noetl.ports.retention import Removed


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
            found = _old(tables, before, limit)
            for execution_id in found:
                tables.executions[execution_id].leaving = True
            return found

    def old(self, before: float, limit: int) -> Sequence[int]:
        with self._store.tables() as tables:
            return _old(tables, before, limit)

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

    def remove(self, execution_ids: Sequence[int]) -> Removed:
        gone, going = Removed(), []
        with self._store.tables() as tables:
            for entry in list(_leaving(tables, execution_ids)):
                left = [one.execution_id for one in _children(tables, entry.execution_id)]
                if not set(left) <= set(execution_ids):
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
                self._forget(entry.execution_id)
            for execution_id in going:
                del tables.executions[execution_id]
        return gone

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


def _old(tables: Tables, before: float, limit: int) -> list[int]:
    roots = [
        entry
        for entry in tables.executions.values()
        if entry.created.parent_execution_id is None
        and entry.ended_at is not None
        and entry.ended_at < before
        and all(_is_old(tables, one, before) for one, _ in _tree(tables, entry, 0))
    ]
    roots.sort(key=lambda entry: entry.ended_at or 0.0)
    tree = [found for root in roots[:limit] for found in _tree(tables, root, 0)]
    tree.sort(key=lambda found: (-found[1], found[0].execution_id))
    return [entry.execution_id for entry, _ in tree[:limit]]


def _is_old(tables: Tables, entry: ExecutionEntry, before: float) -> bool:
    if entry.ended_at is None or entry.ended_at >= before:
        return False
    return not any(
        row.execution_id == entry.execution_id
        or (row.source == entry.execution_id and row.event_id == "start")
        for row in tables.outbox.values()
    )


def _tree(tables: Tables, entry: ExecutionEntry, depth: int) -> Iterator[tuple[ExecutionEntry, int]]:
    yield entry, depth
    for child in _children(tables, entry.execution_id):
        yield from _tree(tables, child, depth + 1)


def _children(tables: Tables, execution_id: int) -> list[ExecutionEntry]:
    return [one for one in tables.executions.values() if one.created.parent_execution_id == execution_id]


def _leaving(tables: Tables, execution_ids: Sequence[int]) -> Iterator[ExecutionEntry]:
    for execution_id in execution_ids:
        entry = tables.executions.get(execution_id)
        if entry is not None and entry.leaving and entry.ended_at is not None:
            yield entry
