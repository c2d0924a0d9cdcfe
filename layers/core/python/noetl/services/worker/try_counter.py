"""The counter of how often commands are begun.

The queue's count of deliveries is too high for that: an outage delivers commands again as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.ports.command_tries import CommandTries, TriesStore

SHOWN = 300
"""Characters of what was away that are noted with a command."""


@dataclass(frozen=True, slots=True)
class TryCounter:
    """A counter of tries. ``store``: None where deliveries count.

    ``most``: tries of a command. ``now``: epoch seconds.
    """

    store: TriesStore | None
    most: int
    now: Callable[[], float]
    log: Callable[[str], None]

    def begin(self, command: Command, received: int) -> int:
        """Count a try and return its number; above ``most`` the command must not be begun.

        A worker that returns a command records that. Without an entry the first worker died, and it counts as if it had begun the
        command: whether it had is unknown, and ``most`` is the most processes that a command may end. Raises InfrastructureError.
        """
        if self.store is None or received <= 1:
            return min(received, self.most)
        known = self.store.get(command.execution_id, command.command_id, command.attempt, command.turn)
        began = 1 if known is None else known.began
        if began < self.most:
            self.store.put(command, CommandTries(began + 1, received, self.now()))
        return began + 1

    def is_last(self, command: Command, received: int) -> bool:
        """Return whether the next try is the last one, or one too many.

        No worker ended the earlier tries.
        """
        if self.store is None or received < self.most:
            return False
        try:
            known = self.store.get(command.execution_id, command.command_id, command.attempt, command.turn)
        except InfrastructureError:
            return False  # to begin it asks again, and gives it back
        return known is not None and known.began >= self.most - 1

    def excuse(self, command: Command, tries: int, received: int, why: str) -> None:
        """Record that this was no try. If that cannot be recorded, it counts as one."""
        self._note(command, tries - 1, received, why)

    def pass_over(self, command: Command, received: int, why: str) -> None:
        """Record that the first worker returned the command and had not begun it.

        Later workers leave the count as it is.
        """
        if received <= 1:
            self._note(command, 0, received, why)

    def _note(self, command: Command, began: int, received: int, why: str) -> None:
        if self.store is None:
            return
        try:
            self.store.put(command, CommandTries(began, received, self.now(), why[:SHOWN]))
        except InfrastructureError as outage:
            self.log(f"command {command.command_id} counts as tried: {outage}")
