"""Outcomes of commands that cannot be run: every attempt broke its worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import msgspec

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, TaskError
from noetl.domain.events import Event
from noetl.domain.kinds import KindSpec, TaskContext
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome
from noetl.dsl.program import Program
from noetl.ports.results import ResultStore
from noetl.services.worker.run_command import refused, run_command
from noetl.services.worker.worker_deps import WorkerDeps

HINT = "the log of the worker says more"


def worker_lost(command: Command, reason: str) -> Event:
    """Build the failed outcome (kind ``worker_lost``) of ``command``, or of its loop's items."""
    error = ErrorInfo(
        message=f"the worker could not run this: {reason}",
        kind="worker_lost",
        code="worker_lost",
        retryable=True,
        hint=HINT,
    )
    return refused(command, Outcome("error", error=error))


def answer_lost(
    command: Command,
    programs: Callable[[str], Program],
    results: ResultStore,
    reason: str,
    log: Callable[[str], None],
) -> list[Event]:
    """Run a lost command's pipeline with its call failed as ``worker_lost``.

    The playbook's rules and retries see the call that was to be made fail. The calls after that are left to a worker (in a loop, each
    item's remaining calls fail as well).

    Raises InfrastructureError when the program or the results cannot be reached.
    """
    lost = _Lost(reason)
    deps = WorkerDeps(
        programs=programs,
        registry=lost,
        results=results,
        credentials=lost,
        deadline=lambda: math.inf if command.loop is not None else 0.0,
        log=log,
    )
    events: list[Event] = []
    try:
        run_command(command, deps, events.append)
    except InfrastructureError:
        raise
    except BaseException as error:
        log(f"rules of step {command.step} cannot answer its loss: {type(error).__name__}: {error}")
        return [worker_lost(command, reason)]
    return events


class _Lost(msgspec.Struct, frozen=True):
    """Kinds and credentials of a worker that no longer exists."""

    reason: str

    def spec(self, name: str) -> KindSpec:
        raise KeyError(name)

    def run(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> NoReturn:
        raise self._error()

    def is_unseen(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> bool:
        return False

    def is_at_hand(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> bool:
        return False

    def prepare(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> None:
        """Do nothing: no call follows."""

    def stop(self, name: str, state: Mapping[str, Any], context: TaskContext) -> None:
        """Do nothing: no worker is there to stop the job."""

    def get(self, name: str, execution_id: int) -> NoReturn:
        raise self._error()

    def _error(self) -> TaskError:
        return TaskError(
            f"the worker could not run this: {self.reason}",
            kind="worker_lost",
            code="worker_lost",
            retryable=True,
            hint=HINT,
        )
