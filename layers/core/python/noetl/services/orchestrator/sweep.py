"""The sweeper's relay of outbox rows that a killed invocation left, and of unsent timers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from noetl.domain.events import TimerFired
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.services.orchestrator.publish import Publisher
from noetl.services.results.prune import KEY_SECONDS
from noetl.services.support.lease_owner_id import new_owner

LIMIT = 500
"""Most rows of a kind in one round."""
LIFETIME = 120.0
MARGIN_SECONDS = 10.0


@dataclass(slots=True)
class SweepCounts:
    commands: int = 0
    events: int = 0
    timers: int = 0
    unsent: int = 0


def sweep(
    store: ExecutionStore,
    publisher: Publisher,
    *,
    who: str,
    clock: Callable[[], float],
    deadline: Callable[[], float],
) -> SweepCounts:
    """Publish outbox rows and due timers until none are left or time is short.

    Raises InfrastructureError when the database is unreachable: the next sweep continues.
    """
    swept = SweepCounts()
    while deadline() > MARGIN_SECONDS:
        # A row may come up in two rounds (a Start that got its slot in between): each publishes under a name of its own.
        owner = new_owner(clock(), LIFETIME, who)
        commands = store.claim(owner, LIMIT)
        events = store.undelivered(owner, LIMIT)
        due, _ = store.due_timers(owner, LIMIT)
        fired = [event for event in due if isinstance(event, TimerFired)]
        if not (commands or events or fired):
            break
        done = publisher.publish(owner, commands, events, fired=fired)
        swept.commands += len(commands)
        swept.events += len(events)
        swept.timers += len(fired)
        swept.unsent += done.unsent
        if done.unsent:
            break
    store.forget_keys(KEY_SECONDS)
    return swept
