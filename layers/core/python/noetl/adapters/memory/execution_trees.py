"""Trees of executions in memory.

They show what started what, when all of it was over, and which trees can reach its results.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.adapters.memory.tables import ExecutionEntry, Tables
from noetl.domain import codec
from noetl.domain.ids import is_start
from noetl.domain.labels import label_texts
from noetl.ports.executions.answers import CreatedExecution, ExecutionFilter
from noetl.ports.executions.execution_store import ExecutionInfo


def children(tables: Tables, execution_id: int) -> list[ExecutionEntry]:
    return [one for one in tables.executions.values() if one.created.parent_execution_id == execution_id]


def tree(tables: Tables, entry: ExecutionEntry, depth: int = 0) -> Iterator[tuple[ExecutionEntry, int]]:
    """An execution and everything it started, with how far below."""
    yield entry, depth
    for child in children(tables, entry.execution_id):
        yield from tree(tables, child, depth + 1)


def leaves_first(
    tables: Tables, entry: ExecutionEntry, depth: int = 0
) -> Iterator[tuple[ExecutionEntry, int]]:
    """Walk the same tree with each member after all that it started."""
    for child in sorted(children(tables, entry.execution_id), key=lambda one: one.execution_id):
        yield from leaves_first(tables, child, depth + 1)
    yield entry, depth


def root_of(tables: Tables, execution_id: int) -> ExecutionEntry | None:
    """Return the root execution above this one; None when there is no such execution."""
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
        or (row.source == entry.execution_id and is_start(row.event_id))
        for row in tables.outbox.values()
    )


def tree_is_old(tables: Tables, root: ExecutionEntry, before: float) -> bool:
    return all(is_old(tables, one, before) for one, _ in tree(tables, root))


def is_wanted(tables: Tables, root: ExecutionEntry) -> bool:
    """Return whether an execution of another tree can reach results of this one.

    The other execution lives or is about to. It got a reference to a result of this tree, or of a tree that got one.
    """
    seen = {root.execution_id}
    pending = [root]
    while pending:
        members = {one.execution_id for one, _ in tree(tables, pending.pop())}
        for holder, held in tables.holds:
            above = root_of(tables, holder) if held in members else None
            if above is None or above.execution_id in seen:
                continue
            if any(_is_awake(tables, one) for one, _ in tree(tables, above)):
                return True
            seen.add(above.execution_id)
            pending.append(above)
    return False


def _is_awake(tables: Tables, entry: ExecutionEntry) -> bool:
    """It lives, or an event waits for it."""
    return entry.ended_at is None or any(key[0] == entry.execution_id for key in tables.outbox)


def over_at(tables: Tables, root: ExecutionEntry) -> float | None:
    """Return when the tree was over, or None.

    None: a member runs, an event is on its way to one, or an execution of another tree can reach its results.
    """
    if not tree_is_old(tables, root, float("inf")) or is_wanted(tables, root):
        return None
    return max(one.ended_at or 0.0 for one, _ in tree(tables, root))


def fits(entry: ExecutionEntry, wanted: ExecutionFilter, tables: Tables) -> bool:
    """Say whether a list of executions, as asked for, has this one in it."""
    created, started = entry.created, entry.started_at
    return (
        wanted.path in (None, created.path)
        and wanted.parent in (None, created.parent_execution_id)
        and (wanted.started_after is None or started >= wanted.started_after)
        and (wanted.started_before is None or started < wanted.started_before)
        and wanted.program in (None, entry.program)
        and wanted.labels.items() <= created.labels.items()
        and wanted.principal in (None, created.principal)
        and (wanted.text is None or _mentions(created, wanted.text.lower()))
        and (
            wanted.error_code is None
            or (entry.status == "failed" and failure_code(entry) == wanted.error_code)
        )
        and not (wanted.roots and created.parent_execution_id is not None)
        and (wanted.ids is None or entry.execution_id in wanted.ids)
        and (
            not wanted.statuses
            or entry.status in wanted.statuses
            or (wanted.pausing and any(one.pauses for one in tables.steering(entry.execution_id)))
        )
    )


def _mentions(created: CreatedExecution, words: str) -> bool:
    texts = (created.path, created.name, *label_texts(created.labels))
    return any(words in text.lower() for text in texts)


def failure_code(entry: ExecutionEntry) -> str:
    """Return the code of the error that its state holds, or the kind of that error."""
    error = (codec.decode(entry.state) if entry.state else {}).get("error") or {}
    return str(error.get("code") or error.get("kind") or "unknown")


def info_of(entry: ExecutionEntry, now: float) -> ExecutionInfo:
    """What lists show of an execution at ``now``."""
    return ExecutionInfo(
        execution_id=entry.execution_id,
        path=entry.created.path,
        name=entry.created.name,
        status=entry.status,
        program=entry.program,
        version=entry.version,
        started_at=entry.started_at,
        ended_at=entry.ended_at,
        parent_execution_id=entry.created.parent_execution_id,
        state=entry.state,
        ahead=entry.version == 0 and entry.started_at > now,
        playbook_version=entry.created.playbook_version,
        principal=entry.created.principal,
        labels=entry.created.labels,
        rested=entry.rested_at(now),
    )
