"""What the engine is told when a command cannot be run at all: its worker broke on it, again and again."""

from __future__ import annotations

from noetl.domain.commands import Command
from noetl.domain.events import Event
from noetl.domain.outcomes import ErrorInfo, Outcome
from noetl.services.run_command import refused


def worker_lost(command: Command, reason: str) -> Event:
    """The failed outcome of ``command`` (of every item, when it carries a loop's), of kind ``worker_lost``."""
    error = ErrorInfo(
        message=f"the worker could not run this: {reason}",
        kind="worker_lost",
        code="worker_lost",
        retryable=True,
        hint="the log of the worker says more",
    )
    return refused(command, Outcome("error", error=error))
