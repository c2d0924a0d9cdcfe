"""Readers of the state that is stored in an execution's row."""

from __future__ import annotations

from noetl.domain.state import ExecutionState, decode_state
from noetl.domain.unreadable import Unreadable, attempt, demand
from noetl.ports.executions.execution_store import ExecutionInfo


def read_state(info: ExecutionInfo) -> tuple[ExecutionState, Unreadable | None]:
    """Read the state of an execution; an empty one, and why, when it cannot be read."""
    empty = ExecutionState(program=info.program, status=info.status)
    if not info.version:
        return empty, None
    found = attempt(lambda: decode_state(info.state), _row_of(info.execution_id))
    return (empty, found) if isinstance(found, Unreadable) else (found, None)


def demand_state(info: ExecutionInfo) -> ExecutionState:
    """Read the state of an execution; an empty one before it has begun.

    Raises UnreadableRowError.
    """
    return state_of(info.execution_id, info.state) if info.version else read_state(info)[0]


def state_of(execution_id: int, document: bytes | str) -> ExecutionState:
    """Decode the stored state of an execution. Raises UnreadableRowError, which names it."""
    return demand(lambda: decode_state(document), _row_of(execution_id))


def _row_of(execution_id: int) -> str:
    return f"the state of execution {execution_id}"
