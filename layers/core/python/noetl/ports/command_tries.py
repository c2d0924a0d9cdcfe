"""Port of the count of attempts that workers began of a redelivered command.

A queue counts deliveries; a delivery during an outage is no attempt.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from noetl.domain.commands import Command


class CommandTries(msgspec.Struct, frozen=True):
    """The record of a command that was delivered again.

    ``began``: how often a worker began it and did not end it, outages apart. ``received``: deliveries. ``at``: epoch seconds of the
    latest entry. ``why``: what kept the latest worker from ending it; empty while that one works, or when it died.
    """

    began: int
    received: int
    at: float
    why: str = ""


class TriesStore(Protocol):
    """Keeps one entry for each (command, attempt, turn); it goes with its execution.

    Raises InfrastructureError.
    """

    def get(self, execution_id: int, command_id: str, attempt: int, turn: int) -> CommandTries | None:
        """Return the latest entry; None: only one delivery, or its worker died."""

    def put(self, command: Command, tries: CommandTries) -> None: ...
