"""Work that goes on elsewhere although its execution, or step run, is over: it is ended soon, and before this process goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from noetl.domain.commands import Command
from noetl.runtime.local.lease_keeper import Keeper

MOST_SECONDS = 20.0
"""What a process that is done waits for this, at most."""


class LeftBehind:
    """``revoked(execution_id, run)``: whether a step run is not wanted any more. Safe to share between threads."""

    def __init__(self, keeper: Keeper, revoked: Callable[[int, int], bool]) -> None:
        self._keeper = keeper
        self._revoked = revoked
        self._here: dict[tuple[int, str, int], Command] = {}
        """Commands of this process, delayed or under way, that stand for work elsewhere."""
        self._gone: set[tuple[int, str, int]] = set()
        """Those that the store does not have any more. The step run of one may go on: another attempt may have answered it."""
        self._changed = threading.Condition()

    def comes(self, command: Command) -> None:
        """This process has ``command``."""
        if command.remote:
            with self._changed:
                self._here[_key(command)] = command

    def goes(self, command: Command) -> None:
        """It has been run, or is somebody else's."""
        if command.remote:
            with self._changed:
                self._here.pop(_key(command), None)
                self._gone.discard(_key(command))
                self._changed.notify_all()

    def withdraw(self, command: Command) -> None:
        """The store does not have ``command`` any more: what it began elsewhere is to be ended here."""
        with self._changed:
            self._gone.add(_key(command))

    def is_withdrawn(self, command: Command) -> bool:
        """Whether the store does not have this attempt any more, as far as this process knows."""
        return _key(command) in self._gone

    def unwanted(self, command: Command) -> bool:
        """Whether nobody wants the outcome of ``command``."""
        return self.is_withdrawn(command) or self._revoked(command.execution_id, command.run)

    def hasten(self) -> None:
        """Something was given up: what stands for its work elsewhere runs now, and ends that."""
        self._keeper.hasten(self._is_one)

    def wait(self) -> None:
        """Until nothing is left to end."""
        self.hasten()
        until = time.monotonic() + MOST_SECONDS
        with self._changed:
            while time.monotonic() < until and any(map(self._is_one, self._here.values())):
                self._changed.wait(0.25)

    def _is_one(self, command: Command) -> bool:
        return command.remote and self.unwanted(command)


def _key(command: Command) -> tuple[int, str, int]:
    return command.execution_id, command.command_id, command.attempt
