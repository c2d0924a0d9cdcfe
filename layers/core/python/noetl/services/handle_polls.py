"""Turns that did nothing but ask how work elsewhere is getting on: the command goes on as it was, and history is not made of it.

However long the work takes, its execution is not touched: a row per command is written over (``ExecutionStore.ask_again``).
"""

from __future__ import annotations

from collections.abc import Sequence

from noetl.domain.events import CommandDone, Event, ItemsDone
from noetl.domain.outcomes import Outcome
from noetl.ports.execution_store import Poll
from noetl.services.engine_deps import EngineDeps, Handled


def asks_again(event: Event) -> Poll | None:
    """What ``event`` comes to, when its turn did nothing else."""
    if not isinstance(event, (CommandDone, ItemsDone)):
        return None
    outcome = event.outcome if isinstance(event, CommandDone) else _only(event)
    suspend = outcome.suspend if outcome is not None else None
    if suspend is None or not suspend.again:
        return None
    return Poll(
        event.execution_id,
        event.command_id,
        event.attempt,
        event.turn,
        suspend.machine,
        suspend.delay or 0.0,
    )


def _only(event: ItemsDone) -> Outcome | None:
    """The outcome of a message that is about one suspended item and nothing else."""
    if event.closed:
        return None
    if event.rest is not None:
        return None if event.items else event.rest.outcome
    return event.items[0].outcome if len(event.items) == 1 else None


def handle_polls(polls: Sequence[Poll], deps: EngineDeps, handled: Handled) -> None:
    """Those that come too late change nothing, and are not told of. Raises InfrastructureError."""
    handled.add(deps.store.ask_again(polls, deps.owner), ())
