"""Pause and resume of an execution, applied to its children.

It does the same as sql/functions/20_main_lane_parts.sql.
"""

from __future__ import annotations

from noetl.adapters.memory.limits import Grants, give
from noetl.adapters.memory.tables import ExecutionEntry, Tables
from noetl.domain import ids
from noetl.domain.events import Event, Pause, Resume, Start, decode_event
from noetl.domain.limits import WHOLE
from noetl.domain.workers.lease_owners import HELD
from noetl.ports.executions.execution_store import Change, ChildrenWord, CreatedExecution


def words(tables: Tables, change: Change, word: ChildrenWord) -> list[Event]:
    """Return a Pause or Resume for every child that has begun.

    Children that are over and do not pass it on get none.
    """
    kind = Pause if word.what == "pause" else Resume
    children = [] if word.what == "resume_below" else begun(tables, change.execution_id)
    children += passing_on(tables, change.execution_id)
    children_programs = sorted((entry.execution_id, entry.program) for entry in children)
    return [kind(child, word.event_id, program, word=word.seq) for child, program in children_programs]


def begun(tables: Tables, parent: int) -> list[ExecutionEntry]:
    """Return the children that have begun and are not over."""
    return [entry for entry in _children(tables, parent) if entry.version > 0 and not entry.over]


def passing_on(tables: Tables, parent: int) -> list[ExecutionEntry]:
    """Return the children that have ended with a live execution below them."""
    return [one for one in _children(tables, parent) if one.over and _leads_on(tables, one.execution_id)]


def _leads_on(tables: Tables, ended: int) -> bool:
    if any(not child.over or _leads_on(tables, child.execution_id) for child in _children(tables, ended)):
        return True
    starts = (one for one in tables.outbox.values() if one.source == ended and ids.is_start(one.event_id))
    return any(one.execution_id != ended for one in starts)


def is_held_back(entry: ExecutionEntry) -> bool:
    """Whether an execution was paused before it began."""
    return entry.version == 0 and entry.status == "paused"


def hold_back(tables: Tables, parent: int, owner: str | None) -> Grants:
    """Pause the children of ``parent`` that have not begun; make rows for those without.

    A child that waited for a slot is passed over from now on: return what ``owner`` is given of its key.
    """
    for posted in list(tables.outbox.values()):
        if posted.source != parent or not ids.is_start(posted.event_id) or posted.execution_id == parent:
            continue
        if posted.execution_id not in tables.executions:
            start = decode_event(posted.payload)
            assert isinstance(start, Start)
            created = CreatedExecution(
                start.path, "", parent_execution_id=parent, awaited_by=posted.awaited_by
            )
            tables.executions[posted.execution_id] = ExecutionEntry(
                posted.execution_id, created, tables.clock(), program=start.program
            )
    keys: set[str] = set()
    for entry in _children(tables, parent):
        if entry.version == 0 and not entry.over:
            entry.status = "paused"
            keys |= _queued(tables, entry.execution_id)
    return give(tables, keys, (), owner, owner)


def let_begin(tables: Tables, parent: int, owner: str | None) -> Grants:
    """Let children begin that were paused before they had.

    Their Starts that lie in the outbox are ``owner``'s; those in a queue stay in it."""
    begun = [entry.execution_id for entry in _children(tables, parent) if is_held_back(entry)]
    events: list[Event] = []
    keys: set[str] = set()
    for child in begun:
        tables.executions[child].status = "running"
        queued = _queued(tables, child)
        keys |= queued
        start = tables.start_of(child)
        if not queued and start is not None and start.owner == HELD:
            start.release(owner, tables.clock())
            events.append(decode_event(start.payload))
    given = give(tables, keys, (), owner, owner)
    given.events = events + given.events
    return given


def _queued(tables: Tables, execution_id: int) -> set[str]:
    return {use.limit.key for use in tables.uses.get((execution_id, WHOLE), ()) if use.queued}


def _children(tables: Tables, parent: int) -> list[ExecutionEntry]:
    return [one for one in tables.executions.values() if one.created.parent_execution_id == parent]
