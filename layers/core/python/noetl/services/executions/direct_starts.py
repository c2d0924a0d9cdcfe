"""Direct starts of a deployment: the API function has the engine decide them at once.

The Starts that this fails for go through the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Event, Start
from noetl.services.messaging.send_events import EventSender

SECONDS = 15.0
"""How long a request handles the events that its start causes; later ones go through the queue."""


@dataclass(slots=True)
class DecidedStarts:
    """The result of deciding Starts directly.

    ``left``: Starts that were not decided, and go through the queue. ``taken``: (execution, event) whose id another execution has.
    ``failed``: executions that failed at once.
    """

    left: list[Start] = field(default_factory=list)
    taken: set[tuple[int, str]] = field(default_factory=set)
    failed: int = 0


Decide = Callable[[Sequence[Start], Callable[[], float]], DecidedStarts]
"""Let the engine decide these within the seconds that are left. Raises InfrastructureError."""


class DirectStarts:
    """A publisher of durable events that decides Starts itself.

    ``decide``: the engine, which is loaded by the first start. ``sender``: for all else, and for Starts that were not decided.
    ``clock``: monotonic seconds.
    """

    def __init__(
        self,
        decide: Decide,
        sender: EventSender,
        clock: Callable[[], float],
        log: Callable[[str], None],
    ) -> None:
        self._decide, self._sender, self._clock, self._log = decide, sender, clock, log

    def begin(self, start: Start) -> bool | None:
        """Begin an execution in one commit with its first commands: see ``start_execution.Begin``."""
        begun = self._begun([start])
        if begun.left:
            return None
        return (start.execution_id, start.event_id) not in begun.taken

    def owner(self) -> str:
        return self._sender.owner()

    def events(self, owner: str, events: Sequence[Event]) -> None:
        """Decide durable Starts, and send the events that are left.

        Raises InfrastructureError as ``EventSender.events`` does.
        """
        starts = [event for event in events if isinstance(event, Start)]
        left = self._begun(starts).left if starts else []
        self._sender.events(
            owner, [event for event in events if not isinstance(event, Start) or event in left]
        )

    def _begun(self, starts: Sequence[Start]) -> DecidedStarts:
        until = self._clock() + SECONDS
        try:
            return self._decide(starts, lambda: until - self._clock())
        except InfrastructureError as outage:
            self._log(f"{len(starts)} start(s) go through the queue: {outage}")
            return DecidedStarts(list(starts))
