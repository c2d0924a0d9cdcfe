"""What the engine is told when a command cannot be run at all: its pool's worker broke on it, again and again."""

from __future__ import annotations

from noetl.domain import ids
from noetl.domain.commands import Command, ItemOutcome
from noetl.domain.events import CommandDone, Event, ItemsDone
from noetl.domain.outcomes import ErrorInfo, Outcome


def worker_lost(command: Command, reason: str) -> Event:
    """The failed outcome of ``command`` (of every item, when it carries a loop's), of kind ``worker_lost``."""
    error = ErrorInfo(
        message=f"the worker could not run this: {reason}",
        kind="worker_lost",
        code="worker_lost",
        retryable=True,
        hint="the log of the worker says more",
    )
    outcome = Outcome("error", error=error)
    if command.loop is None:
        return CommandDone(
            command.execution_id,
            ids.outcome_event(command.command_id, command.turn),
            command.program,
            command.command_id,
            command.attempt,
            command.turn,
            command.run,
            command.step,
            outcome,
            command.stage,
        )
    loop = command.loop
    left = [index for index in range(loop.start, loop.stop) if index not in loop.skip]
    return ItemsDone(
        command.execution_id,
        f"items:{command.command_id}:{command.attempt}:{command.turn}:lost",
        command.program,
        command.command_id,
        command.attempt,
        command.turn,
        command.run,
        command.step,
        loop.round,
        [ItemOutcome(index, outcome) for index in left],
    )
