"""Recovery of an unreadable state from history, enough to cancel the execution."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from noetl.domain.events import Cancel, MainEvent
from noetl.domain.facts.facts import decode_facts
from noetl.domain.state import ExecutionState, Slots
from noetl.domain.unreadable import Unreadable, attempt
from noetl.engine.folds.apply import evolve
from noetl.ports.executions.execution_store import ExecutionStore, Snapshot, StoredEvent

PAGE = 500


def main_lane(store: ExecutionStore, execution_id: int) -> Iterator[StoredEvent]:
    """Read the rows of an execution's main lane, in order and in pages."""
    after = 0
    while True:
        page = store.events(execution_id, after=after, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].seq


def recover_state(snapshot: Snapshot, store: ExecutionStore) -> ExecutionState:
    """Fold the history of an execution.

    A row that cannot be read ends the fold. What is left then is what the first rows say once and for all (the program, the parent that
    waits), without tokens: the state is ``lost``, and the execution can end but not run again.
    """
    state, slots, whole, last = ExecutionState(), Slots(), True, 0
    for row in main_lane(store, snapshot.execution_id):
        last = row.seq
        if whole:
            folded = attempt(partial(_fold, state, slots, row), f"event {row.event_id}")
            whole = not isinstance(folded, Unreadable)
    state.seq = last
    if whole and last:
        return state
    return ExecutionState(
        program=state.program or snapshot.program,
        status=snapshot.status,
        seq=last,
        parent=state.parent,
        depth=state.depth,
        started=state.started,
        priority=state.priority,
        lost=True,
    )


def cancels_first(events: list[MainEvent], why: str) -> list[MainEvent]:
    """Put the cancels of an execution with unreadable state before all other events.

    Each cancel then states ``why``.
    """
    readable = [
        msgspec.structs.replace(event, unreadable=why) if isinstance(event, Cancel) else event
        for event in events
    ]
    return sorted(readable, key=lambda event: not isinstance(event, Cancel))


def _fold(state: ExecutionState, slots: Slots, row: StoredEvent) -> None:
    for fact in decode_facts(row.facts):
        evolve(state, slots, fact)
