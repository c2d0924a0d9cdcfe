"""Port of what queues outside the database know about the messages of an execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from noetl.ports.command_tries import CommandTries
from noetl.ports.gauges import QueueGauge


class DeadLetter(msgspec.Struct, frozen=True):
    """A message in a dead-letter queue.

    ``why``: what the engine says, without tokens; empty when the queue gave up. ``executions``: those that it is about, as far as it can
    be read. ``received``: deliveries, among them those to readers of the dead-letter queue. ``kind``: the type of its event, or
    ``command``; empty when it cannot be read. ``step``, ``run``, ``command_id``: of the work that it is about, if any.
    """

    queue: str
    message_id: str
    sent_at: float
    why: str
    executions: list[str]
    received: int = 1
    kind: str = ""
    step: str = ""
    run: int | None = None
    command_id: str = ""


class Deliveries(Protocol):
    """Raises InfrastructureError when a queue or a store cannot be asked."""

    def dead_letters(self, execution_id: int) -> Sequence[DeadLetter]: ...

    def tries(self, execution_id: int, command_id: str, attempt: int, turn: int) -> CommandTries | None:
        """Return how often workers began a command that was delivered again; None: delivered once."""

    def gauges(self) -> Sequence[QueueGauge]: ...
