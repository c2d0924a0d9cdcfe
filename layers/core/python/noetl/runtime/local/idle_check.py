"""The check whether an execution continues by itself or waits for a person or a system."""

from __future__ import annotations

from noetl.domain.workers.lost_owners import Takes
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.services.history.execution_state import read_state


def outstanding(store: ExecutionStore, execution_id: int, takes: Takes = "everything") -> bool:
    """Return whether anything can still happen to an execution without help from outside.

    The answer is that of a process that takes over ``takes``. Timers do not count: a run that waits only for them is
    parked. A paused execution waits for its resume, a callback without a time limit for a person or system outside, and
    an execution whose state cannot be read for its operator.
    """
    info = store.info(execution_id)
    if info is None or info.status == "paused":
        return False
    work = store.open_work(execution_id)
    if takes != "everything" and work.get("lost"):
        return False
    tokens = read_state(info)[0].tokens.values()
    asleep = sum(token.unbounded for token in tokens)
    if work.get("commands", 0) > asleep or work.get("outbox"):
        return True
    return not info.version or any(
        token.phase not in ("parked", "arrived") and not token.unbounded for token in tokens
    )
