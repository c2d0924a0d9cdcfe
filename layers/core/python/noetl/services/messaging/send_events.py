"""Sender of durable events: it signs, sends and marks them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from noetl.domain.capability_tokens import KeyRing, sign
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Event, encode_event
from noetl.domain.messages import VERSION, Message, event_dedup, event_group
from noetl.ports.executions.execution_store import ExecutionStore, Published
from noetl.ports.queue import Outgoing, Queue
from noetl.ports.results import ResultStore
from noetl.services.messaging.large_messages import pack
from noetl.services.support.lease_owner_id import new_owner

LIFETIME = 60.0
"""Seconds an event stays its sender's; what was not published by then is published by maintenance."""


@dataclass(frozen=True, slots=True)
class EventSender:
    """A sender of events to the engine.

    ``keys``: returns the current key ring. ``who``: part of the owner's name. ``clock``: epoch seconds. ``limit``: bytes of a message; a
    larger one is sent as a reference.
    """

    store: ExecutionStore
    queue: Queue
    results: ResultStore
    keys: Callable[[], KeyRing]
    who: str
    clock: Callable[[], float]
    limit: int

    def owner(self) -> str:
        """Whose the events of this invocation are until they are published."""
        return new_owner(self.clock(), LIFETIME, self.who)

    def events(self, owner: str, events: Sequence[Event]) -> None:
        """Send events, then mark them as sent.

        Raises InfrastructureError when some could not be sent or marked: they stay with ``owner`` until its lease is over.
        """
        if not events:
            return
        keys = self.keys()
        unsent = set(
            self.queue.send([signed_event(event, owner, keys, self.results, self.limit) for event in events])
        )
        sent = [event for number, event in enumerate(events) if number not in unsent]
        if sent:
            self.store.hand_over(owner, Published(events=sent))
        if unsent:
            raise InfrastructureError(
                f"{len(unsent)} of {len(events)} events could not be sent", code="events_not_sent"
            )


def signed_event(
    event: Event, owner: str, keys: KeyRing, results: ResultStore, limit: int, due: float = 0.0
) -> Outgoing:
    """Return a control event as its queue takes it.

    ``owner``: of the row it comes from; sendings of one event by two owners are two messages for the queue, which remembers a
    deduplication id for five minutes although the message was consumed. A row that was held meanwhile, that waited for a slot, or
    whose message was lost has to reach the engine again. Raises InfrastructureError when it is too large and cannot be stored."""
    token = sign(encode_event(event), keys)
    text = pack(Message(VERSION, token=token, due=due, event=event), results, limit=limit)
    return Outgoing(text, group=event_group(event), dedup=event_dedup(event, owner))
