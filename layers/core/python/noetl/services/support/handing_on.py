"""A guard of the time between posting an event and handing it to the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from noetl.domain.events import Event
from noetl.ports.executions.execution_store import ExecutionStore


@contextmanager
def handing_on(store: ExecutionStore, owner: str, posted: Sequence[Event | None]) -> Iterator[None]:
    """Guard what a door does between posting events and handing them on.

    When that fails, ``owner`` disowns the events: it lives, so that no other process would take them. ``posted`` may
    grow meanwhile.
    """
    try:
        yield
    except BaseException:
        store.disown([event for event in posted if event is not None], owner)
        raise
