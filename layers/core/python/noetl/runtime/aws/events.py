"""Events over HTTP on a deployment: admitted ones go to the engine's queue."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.event_batches import PostgresEventBatches
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Event
from noetl.domain.messages import decode_message, event_group
from noetl.ports.queue import Outgoing, Queue
from noetl.services.messaging.large_messages import pack
from noetl.services.orchestrator.authenticate import MessageAuthenticator
from noetl.services.orchestrator.ingest_worker_events import EventsDeps


def events_in(
    door: MessageAuthenticator,
    database: Database,
    queue: Queue,
    *,
    limit: int,
    refused: Callable[[str], None],
    renew_lease: Callable[[int, str, int, int], bool],
) -> EventsDeps:
    """Return the dependencies of events over HTTP.

    ``limit``: bytes of a message. Each message has its own token, which the engine checks again. A repeat has the same text, so the queue
    drops it.
    """

    def forward(found: Sequence[tuple[str, Event]]) -> None:
        messages = [
            Outgoing(
                pack(decode_message(text), door.results, limit=limit),
                event_group(event),
                hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
            )
            for text, event in found
        ]
        if messages and (unsent := queue.send(messages)):
            raise InfrastructureError(f"{len(unsent)} events could not be sent", code="events_not_sent")

    batches = PostgresEventBatches(database)
    return EventsDeps(door, door.store, batches, forward, refused=refused, renew_lease=renew_lease)
