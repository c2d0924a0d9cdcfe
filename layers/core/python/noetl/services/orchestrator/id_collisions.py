"""Collisions of execution ids: children get the next id, a client's start is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from noetl.domain import ids
from noetl.domain.errors import NoetlError
from noetl.domain.events import ChildDone, Start
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome
from noetl.domain.state import ExecutionState
from noetl.ports.executions.execution_store import ExecutionIdTakenError, ExecutionStore
from noetl.services.orchestrator.engine_deps import BatchEffects, EngineDeps

Answer = TypeVar("Answer")
MOST = 100_000
"""Ids that one batch may find taken. Chance never gets there, so a store that refuses more is broken."""


def more_taken(known: frozenset[int], refused: ExecutionIdTakenError) -> frozenset[int]:
    """Return ``known`` with the ids that the store refused.

    Raises NoetlError when that adds nothing, or too much.
    """
    taken = known | refused.children
    if len(taken) == len(known) or len(taken) > MOST:
        raise NoetlError(
            f"the store refused {len(taken)} execution ids in a row, among them {sorted(refused.children)[:5]}",
            code="execution_id_taken",
            hint="chance does not do that: the store is broken; keep its log and report it",
        )
    return taken


def commit_with_free_ids(
    commit: Callable[[frozenset[int]], Answer],
    known: frozenset[int] = frozenset(),
    refuse_starts: Callable[[frozenset[int]], None] | None = None,
) -> Answer:
    """Call ``commit`` with the ids that children may not get, until the store refuses none.

    ``refuse_starts`` is given the executions whose own Start was refused: ``commit`` leaves those out from then on.
    Raises NoetlError when the store keeps refusing ids.
    """
    while True:
        try:
            return commit(known)
        except ExecutionIdTakenError as refused:
            if refused.starts and refuse_starts is not None:
                refuse_starts(refused.starts)
            if refused.children or not refused.starts or refuse_starts is None:
                known = more_taken(known, refused)


def was_unborn(state: ExecutionState) -> bool:
    """Check whether a Cancel ended this execution before its Start came."""
    return state.status == "cancelled" and not state.program


def _why(event: Start, store: ExecutionStore) -> str:
    if store.info(event.execution_id) is None and store.start_of(event.execution_id) is None:
        return f"{event.event_id} begins nothing: execution {event.execution_id} was removed"
    return f"execution {event.execution_id} exists already, and {event.event_id} would begin another one"


def refuse_start(event: Start, deps: EngineDeps, handled: BatchEffects) -> None:
    """Report a Start whose execution id is taken or removed: its execution never begins.

    The report is durable. A client's start is in ``handled.taken``, so that the client's door asks again. The store keeps the ids of
    children apart when their parent commits; should one get here, its parent hears that the child failed instead of waiting for ever.
    """
    deps.log(_why(event, deps.store))
    handled.taken.add((event.execution_id, event.event_id))
    parent = event.parent
    if parent is None or not parent.wait:
        return
    error = ErrorInfo(
        message=f"the id {event.execution_id} of this sub-execution belongs to another execution",
        code="execution_id_taken",
        hint="redrive the execution: the sub-execution gets another id",
        retryable=True,
    )
    done = ids.child_done_event(parent.command_id, parent.turn)
    child_done = ChildDone(
        parent.execution_id, done, "", parent, event.execution_id, Outcome("error", error=error)
    )
    if deps.store.post(child_done, deps.owner).posted:
        handled.events.append(child_done)
