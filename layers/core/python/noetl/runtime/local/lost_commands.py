"""Commands that processes of this machine died of: counted at a start, then failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from noetl.domain.commands import Command
from noetl.domain.events import Event
from noetl.domain.workers.lost_owners import ALONE_SECONDS, MOST, suspicious
from noetl.ports.executions.execution_store import ExecutionStore, Fence, LoadRequest
from noetl.runtime.local.process_locks import ProcessLock
from noetl.services.worker.run_command import run_command
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.services.worker.worker_lost import answer_lost


def free_dead(store: ExecutionStore, presence: ProcessLock) -> set[int]:
    """Release what dead processes of this home folder held.

    Each command that one was running when it died is counted as lost. Returns the ids of their executions.
    """
    disturbed: set[int] = set()
    with presence.dead() as found:
        for dead in found:
            store.record_lost(dead.running)
            presence.counted(dead)
            store.release(dead.owner)
            disturbed.update(execution_id for execution_id, _, _ in dead.running)
    return disturbed


def fence_of(store: ExecutionStore, command: Command) -> Fence | None:
    """Return the attempt and turn that the store has of ``command``; None when it is over."""
    found = store.load([LoadRequest(command.execution_id, commands=(command.command_id,))])
    snapshot = found.executions.get(command.execution_id)
    return None if snapshot is None else snapshot.fences.get(command.command_id)


class SharedRunRule:
    """The rule which commands may run beside others in this process.

    A command during which two processes died is a suspect: it begins with nothing beside it, so that a third death is
    its own doing.

    No side waits longer than ``ALONE_SECONDS``: neither a suspect for what runs already, nor the others for a suspect
    that does not end.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._inside = 0
        self._suspects = 0
        self._until = 0.0
        """When the turn of the latest suspect is over, whether or not it has ended."""
        self._closed = False

    @contextmanager
    def beside(self, command: Command, wait: bool = True) -> Iterator[bool]:
        """Wait for a place; yield False when the process ends first and the command must not run.

        ``wait``: False: yield False at once where a suspect runs or waits.
        """
        with self._changed:
            refused = not wait and self._suspects > 0
            suspect = suspicious(command.lost) and not refused
            if suspect:
                self._suspects += 1
                self._until = self._clock() + ALONE_SECONDS
                self._wait_until(lambda: not self._inside)
                self._until = self._clock() + ALONE_SECONDS
            elif not refused:
                self._wait_until(lambda: not self._suspects)
            self._inside += 1
            may_run = not (self._closed or refused)
        try:
            yield may_run
        finally:
            with self._changed:
                self._inside -= 1
                self._suspects -= suspect
                self._changed.notify_all()

    def close(self) -> None:
        """Let no waiting command begin any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _wait_until(self, free: Callable[[], bool]) -> None:
        while not self._closed and not free() and (left := self._until - self._clock()) > 0:
            self._changed.wait(left)


def attempt(
    command: Command,
    presence: ProcessLock,
    worker: WorkerDeps,
    emit: Callable[[Event], None],
    log: Callable[[str], None],
) -> None:
    """Run a command, and keep a record of it for the case that this process dies.

    A command during which too many processes died is not run, but answered.
    """
    if command.lost >= MOST:
        _give_up(command, worker, emit, log)
        return
    with presence.running(command):
        run_command(command, worker, emit)


def _give_up(
    command: Command, worker: WorkerDeps, emit: Callable[[Event], None], log: Callable[[str], None]
) -> None:
    """Answer a command that killed its processes, without a call of its tool.

    Rules and retries of its task see ``worker_lost``.
    """
    reason = f"{command.lost} processes died while they ran it"
    log(f"command {command.command_id} of {command.execution_id} is not run again: {reason}")
    for event in answer_lost(command, worker.programs, worker.results, reason, log):
        emit(event)
