"""What ends a call early, and what a call may ask of its task while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext


class Watch(msgspec.Struct, frozen=True):
    """The clock of one call and its task."""

    context: TaskContext
    deadline: float
    """On ``time.monotonic()``."""

    @staticmethod
    def start(context: TaskContext) -> Watch:
        """Start the task's time."""
        return Watch(context, time.monotonic() + context.timeout)

    @property
    def left(self) -> float:
        """Seconds; not positive when time is up."""
        return self.deadline - time.monotonic()

    def refuse_late(self, what: str) -> None:
        """Raise TaskError(kind="timeout") once time is up.

        ``what`` ("the code") is what was stopped.
        """
        if self.left <= 0:
            raise TaskError(
                f"{what} ran longer than {self.context.timeout:g} s and was stopped",
                kind="timeout",
                code="timeout",
            )

    def refuse_cancelled(self, what: str) -> None:
        """Raise TaskError(kind="cancelled") when the execution is cancelled."""
        if self.context.cancelled():
            raise TaskError(
                f"the execution was cancelled; {what} was stopped", kind="cancelled", code="cancelled"
            )

    @property
    def log(self) -> Callable[[str], None]:
        """Takes one line of the task's own output."""
        return self.context.log
