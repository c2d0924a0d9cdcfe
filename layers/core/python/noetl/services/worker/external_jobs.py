"""External jobs: work that a task starts in another system, and that needs no worker.

The module decides how long a job may take, which command wakes its task, and how a job is ended.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.domain import ids
from noetl.domain.commands import Command
from noetl.domain.errors import NoetlError, PlaybookError, TaskError
from noetl.domain.kinds import TaskContext
from noetl.domain.outcomes.outcomes import ErrorInfo, PollRequest
from noetl.domain.sizes.gate import find_unfit
from noetl.pipeline import Item, RunTask, TaskOutcome
from noetl.pipeline.state import Pending
from noetl.services.worker.task_errors import NotWantedError
from noetl.services.worker.worker_deps import WorkerDeps

LONGEST_DELAY = 900.0
"""Seconds between two questions, at most: what is given up is noticed when its task is asked again."""


class ExternalJobs:
    """The external jobs of one command's tasks. ``log``: one line, without secrets."""

    def __init__(self, command: Command, deps: WorkerDeps, log: Callable[[str], None]) -> None:
        self.command = command
        self.deps = deps
        self.log = log

    def seconds_of(self, kind: str) -> float:
        """Return the seconds that a call of ``kind`` may take if it starts an external job.

        0 for all other kinds.
        """
        try:
            return self.deps.registry.spec(kind).poll_seconds
        except (KeyError, PlaybookError):
            return 0.0

    def left(self, op: RunTask, whole: float) -> float:
        """Return the seconds until the time-out of a call is over."""
        return whole if op.pending is None else max(0.0, op.pending.until - self.deps.now())

    def wake(self, item: Item | None) -> str:
        """Return the name of the command in which a suspended task continues."""
        command = self.command
        place = command.command_id
        if item is not None and command.loop is not None and command.loop.mode == "parallel":
            place = ids.item_command_id(command.run, command.loop.round, item.place)
        return f"{command.execution_id}/{place}"

    def is_over(self, op: RunTask) -> bool:
        return op.pending is not None and self.deps.now() >= op.pending.until

    def too_late(self, op: RunTask, whole: float) -> ErrorInfo:
        return ErrorInfo(
            f"{op.label} was not over after {whole:g} s, and was stopped",
            "timeout",
            "task_timeout",
            retryable=True,
            hint="give it more time with `spec.timeout` of the task",
        )

    def continues(self, op: RunTask, poll: PollRequest, whole: float, context: TaskContext) -> TaskOutcome:
        """Build what the pipeline learns of an external job that continues.

        Raises TaskError when the job cannot be waited for, and NotWantedError when no execution waits for it: in both cases the job is
        stopped.
        """
        problem = find_unfit(poll.state)
        if problem is None and not self.deps.unwanted(self.command):
            now = self.deps.now()
            since, until = (op.pending.since, op.pending.until) if op.pending else (now, now + whole)
            delay = max(0.0, min(poll.delay, LONGEST_DELAY, until - now))
            return TaskOutcome(pending=Pending(poll.state, since, until), delay=delay)
        self._end(op, poll.state, context)
        if problem is not None:
            raise TaskError(
                f"{op.label} cannot be waited for: {problem}", kind="schema", code="unstorable_state"
            )
        raise NotWantedError(op.label, "stopped")

    def stop(self, op: RunTask, context: TaskContext) -> None:
        """End the external job that an earlier call began, if one did."""
        if op.pending is not None:
            self._end(op, op.pending.state, context)

    def _end(self, op: RunTask, state: dict[str, object], context: TaskContext) -> None:
        try:
            self.deps.registry.stop(op.kind, state, context)
        except (NoetlError, KeyError) as error:
            self.log(f"the external job of {op.label} ({op.kind}) could not be stopped: {error}")
        except Exception as error:
            self.log(f"defect in kind {op.kind}, while stopping: {type(error).__name__}: {error}")
