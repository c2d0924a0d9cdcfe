"""The publication of durable events to their queue; maintenance relays those that fail."""

from __future__ import annotations

from noetl.api.deps import ApiDeps
from noetl.domain.errors import NoetlError
from noetl.domain.events import Event


def publish(deps: ApiDeps, owner: str, *events: Event) -> None:
    """Publish events, which are durable already.

    Never raises an error that the caller could do nothing about: the events are stored, so the request has succeeded.
    """
    if not events:
        return
    try:
        deps.publisher.events(owner, events)
    except NoetlError as error:
        first = events[0]
        subject = f"event {first.event_id} of execution {first.execution_id}"
        more = f" (and {len(events) - 1} more)" if len(events) > 1 else ""
        deps.log(f"{subject}{more} is left for maintenance to publish: {error}")
