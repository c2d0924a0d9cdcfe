"""Whether an execution goes on by itself, or waits for somebody outside."""

from __future__ import annotations

from noetl.domain.state import decode_state
from noetl.ports.execution_store import ExecutionStore


def outstanding(store: ExecutionStore, execution_id: int) -> bool:
    """Whether anything can still happen to it without help. Timers do not count: whatever waits only for them is parked. One that is
    paused waits for its resume; a callback that has no time to come in waits for somebody outside."""
    info = store.info(execution_id)
    if info is None or info.status == "paused":
        return False
    work = store.open_work(execution_id)
    tokens = decode_state(info.state).tokens.values() if info.state else ()
    asleep = sum(token.unbounded for token in tokens)
    if work.get("commands", 0) > asleep or work.get("outbox"):
        return True
    return not info.state or any(
        token.phase not in ("parked", "arrived") and not token.unbounded for token in tokens
    )
