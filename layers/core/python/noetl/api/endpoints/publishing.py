"""What is durable already is sent to its queue at once; if it cannot be, maintenance does it later."""

from __future__ import annotations

from noetl.api.deps import ApiDeps
from noetl.domain.errors import NoetlError
from noetl.domain.events import Event


def publish(deps: ApiDeps, owner: str, event: Event) -> None:
    """Never raises what the caller could do nothing about: the event is kept, so the request has succeeded."""
    try:
        deps.publisher.events(owner, [event])
    except NoetlError as error:
        deps.log(
            f"event {event.event_id} of execution {event.execution_id} is left for maintenance to publish: {error}"
        )
