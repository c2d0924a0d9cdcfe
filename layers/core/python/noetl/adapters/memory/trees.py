"""Trees of executions in memory: what started what, when all of it was over, and who else can reach its results."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.adapters.memory.tables import ExecutionEntry, Tables


def children(tables: Tables, execution_id: int) -> list[ExecutionEntry]:
    return [one for one in tables.executions.values() if one.created.parent_execution_id == execution_id]


def tree(tables: Tables, entry: ExecutionEntry, depth: int = 0) -> Iterator[tuple[ExecutionEntry, int]]:
    """An execution and everything it started, with how far below."""
    yield entry, depth
    for child in children(tables, entry.execution_id):
        yield from tree(tables, child, depth + 1)


def root_of(tables: Tables, execution_id: int) -> ExecutionEntry | None:
    """The execution that nobody started, above this one; None when there is no such execution."""
    entry = tables.executions.get(execution_id)
    while entry is not None:
        above = tables.executions.get(entry.created.parent_execution_id or 0)
        if above is None:
            return entry
        entry = above
    return None


def is_old(tables: Tables, entry: ExecutionEntry, before: float) -> bool:
    """Whether it ended before then, with nothing on its way to it."""
    if entry.ended_at is None or entry.ended_at >= before:
        return False
    return not any(
        row.execution_id == entry.execution_id
        or (row.source == entry.execution_id and row.event_id == "start")
        for row in tables.outbox.values()
    )


def tree_is_old(tables: Tables, root: ExecutionEntry, before: float) -> bool:
    return all(is_old(tables, one, before) for one, _ in tree(tables, root))


def is_wanted(tables: Tables, root: ExecutionEntry) -> bool:
    """Whether somebody of another tree lives who can reach results of this one: he was told of one, or of one of a tree that was."""
    seen = {root.execution_id}
    pending = [root]
    while pending:
        members = {one.execution_id for one, _ in tree(tables, pending.pop())}
        for holder, held in tables.holds:
            above = root_of(tables, holder) if held in members else None
            if above is None or above.execution_id in seen:
                continue
            if any(one.ended_at is None for one, _ in tree(tables, above)):
                return True
            seen.add(above.execution_id)
            pending.append(above)
    return False


def over_at(tables: Tables, root: ExecutionEntry) -> float | None:
    """When the tree was over; None while a member runs, something is on its way to one, or somebody else can reach its results."""
    if not tree_is_old(tables, root, float("inf")) or is_wanted(tables, root):
        return None
    return max(one.ended_at or 0.0 for one, _ in tree(tables, root))
