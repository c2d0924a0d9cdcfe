"""External jobs whose execution or step run is over, and which this process ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from noetl.domain.commands import Command
from noetl.runtime.local.lease_keeper import Keeper

MOST_SECONDS = 20.0
"""Longest time for which a process that is done waits until these jobs have ended."""


class LeftBehind:
    """Commands of this process that follow jobs in other systems. Threads may share it.

    ``revoked(execution_id, run)``: whether the outcome of a step run is no longer wanted.
    """

    def __init__(self, keeper: Keeper, revoked: Callable[[int, int], bool]) -> None:
        self._keeper = keeper
        self._revoked = revoked
        self._here: dict[tuple[int, str, int], Command] = {}
        """Commands of this process, delayed or under way, that follow a job in another system."""
        self._gone: set[tuple[int, str, int]] = set()
        """Those that the store no longer has. Their step run may continue: another attempt may have answered the command."""
        self._changed = threading.Condition()

    def receive(self, command: Command) -> None:
        """Note that this process has ``command``."""
        if command.remote:
            with self._changed:
                self._here[_key(command)] = command

    def remove(self, command: Command) -> None:
        """Note that ``command`` has been run, or that another process has it."""
        if command.remote:
            with self._changed:
                self._here.pop(_key(command), None)
                self._gone.discard(_key(command))
                self._changed.notify_all()

    def withdraw(self, command: Command) -> None:
        """Note that the store no longer has ``command``: this process must end the job it began."""
        with self._changed:
            self._gone.add(_key(command))

    def is_withdrawn(self, command: Command) -> bool:
        """Return whether, as far as this process knows, the store no longer has this attempt."""
        return _key(command) in self._gone

    def unwanted(self, command: Command) -> bool:
        """Return whether the outcome of ``command`` is no longer wanted."""
        return self.is_withdrawn(command) or self._revoked(command.execution_id, command.run)

    def hasten(self) -> None:
        """Run the commands of unwanted jobs now, which ends the jobs.

        The keeper is not woken when there are no external jobs.
        """
        if self._here:
            self._keeper.hasten(self._is_one)

    def wait(self) -> None:
        """Wait until no unwanted job is left, for at most ``MOST_SECONDS``."""
        self.hasten()
        until = time.monotonic() + MOST_SECONDS
        with self._changed:
            while time.monotonic() < until and any(map(self._is_one, self._here.values())):
                self._changed.wait(0.25)

    def _is_one(self, command: Command) -> bool:
        return command.remote and self.unwanted(command)


def _key(command: Command) -> tuple[int, str, int]:
    return command.execution_id, command.command_id, command.attempt
