"""Polls: turns that only asked another system whether its job has ended.

They leave no history. However long the work takes, its execution is not touched: a row per command is written over
(``ExecutionStore.ask_again``).
"""

from __future__ import annotations

from collections.abc import Sequence

from noetl.domain.events import CommandDone, Event, ItemsDone, WorkAdvanced
from noetl.domain.outcomes.outcomes import Outcome
from noetl.ports.executions.execution_store import Poll
from noetl.services.orchestrator.engine_deps import BatchEffects, EngineDeps


def asks_again(event: Event) -> Poll | WorkAdvanced | None:
    """Return the poll in ``event``; None when it reports anything else."""
    if isinstance(event, WorkAdvanced):
        return event
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
    """Return the outcome of a message that is about one suspended item and nothing else."""
    if event.closed:
        return None
    if event.rest is not None:
        return None if event.items else event.rest.outcome
    return event.items[0].outcome if len(event.items) == 1 else None


def handle_polls(polls: Sequence[Poll | WorkAdvanced], deps: EngineDeps, handled: BatchEffects) -> None:
    """Issue the next turn of each poll, and wake commands early.

    Polls that come too late change nothing and leave no record. Raises InfrastructureError.
    """
    again = [poll for poll in polls if isinstance(poll, Poll)]
    if again:
        handled.add(deps.store.ask_again(again, deps.owner), ())
    woken = [(event.execution_id, event.command_id) for event in polls if isinstance(event, WorkAdvanced)]
    if woken:
        handled.add(deps.store.wake_early(woken, deps.owner), ())
