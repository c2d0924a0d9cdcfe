"""Commands that processes of this machine died of: they are counted when the next process starts, and given up after a few."""

from __future__ import annotations

from collections.abc import Callable

from noetl.domain.commands import Command
from noetl.domain.events import Event
from noetl.domain.lost_owners import MOST
from noetl.ports.execution_store import ExecutionStore
from noetl.runtime.presence import Presence
from noetl.services.run_command import run_command
from noetl.services.worker_deps import WorkerDeps
from noetl.services.worker_lost import answer_lost


def free_dead(store: ExecutionStore, presence: Presence) -> None:
    """Free what dead processes of this home folder held, and count what each was running when it died."""
    with presence.dead() as found:
        for dead in found:
            store.record_lost(dead.running)
            store.release(dead.owner)


def attempt(
    command: Command,
    presence: Presence,
    worker: WorkerDeps,
    emit: Callable[[Event], None],
    log: Callable[[str], None],
) -> None:
    """Run a command, on record for the case that this process dies of it; answer one that too many have died of."""
    if command.lost >= MOST:
        _give_up(command, worker, emit, log)
        return
    with presence.running(command):
        run_command(command, worker, emit)


def _give_up(
    command: Command, worker: WorkerDeps, emit: Callable[[Event], None], log: Callable[[str], None]
) -> None:
    """Answer a command that its processes died of: rules and retries of its task see ``worker_lost``, and nothing is called."""
    reason = f"{command.lost} processes died while they ran it"
    log(f"command {command.command_id} of {command.execution_id} is not run again: {reason}")
    for event in answer_lost(command, worker.programs, worker.results, reason, log):
        emit(event)
