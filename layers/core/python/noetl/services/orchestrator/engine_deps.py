"""Dependencies of the engine's shell, built by ``noetl.runtime``, and a batch's outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from noetl.domain.callbacks import CallbackId
from noetl.domain.commands import Command
from noetl.domain.events import CommandDone, Event, TimerFired
from noetl.domain.state import Status
from noetl.dsl.program import Program
from noetl.engine.scopes.slot_view import Limits, no_proofs
from noetl.ports.credentials import CredentialNames
from noetl.ports.executions.execution_store import Change, ExecutionStore
from noetl.ports.results import ResultStore
from noetl.services.orchestrator.snapshot_cache import Recent


def _silent(message: str) -> None:
    """Discard a log message."""


@dataclass(frozen=True, slots=True)
class EngineDeps:
    """The dependencies of the engine's shell.

    ``programs``: hash → Program (raises NotFoundError). ``resolve``: (path, version) → hash (raises NotFoundError). ``owner``: this process
    when it runs commands itself; None when commands go to queues. ``workers``: how many commands of a pool run at once (chunks of a loop
    are cut accordingly). ``hydrate``: loads what a result reference stands for. ``proofs``: what the wait for a callback keeps of its
    tokens (domain/callbacks.py).
    """

    store: ExecutionStore
    results: ResultStore
    programs: Callable[[str], Program]
    resolve: Callable[[str, int | None], str]
    hydrate: Callable[[Mapping[str, Any]], Any]
    owner: str | None = None
    limits: Limits = field(default_factory=Limits)
    workers: Callable[[str], int] = lambda pool: 1
    log: Callable[[str], None] = _silent
    credentials: CredentialNames | None = None
    """What keychains are held against when executions start; None: they are not."""
    proofs: Callable[[CallbackId], Sequence[str]] = no_proofs
    recent: Recent | None = None
    """Executions this process has just committed; without it every batch reads first."""


class DueTimer(msgspec.Struct, frozen=True):
    """``event`` is to be handled ``seconds`` from now."""

    event: TimerFired
    seconds: float


class Begun(Protocol):
    """Commands that workers prepare while their change is written."""

    def settle(self, issued: Sequence[Command]) -> list[Command]:
        """Let those that the store has issued continue; return the other issued ones."""

    def refuse(self) -> None:
        """Let none of them continue.

        The change was not written, or it is not known whether it was.
        """


@dataclass(slots=True)
class BatchEffects:
    """The effects of a batch: commands to run and events to handle next, both durable already."""

    commands: list[Command] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ended: list[tuple[int, Status]] = field(default_factory=list)
    """Executions that reached their terminal event in this batch."""

    timers: list[DueTimer] = field(default_factory=list)
    """Timers that were set. They are rows, too: a process that reads those needs nothing else."""
    dropped: list[tuple[int, int | None]] = field(default_factory=list)
    """Work that is not needed any more: (execution, step run), or (execution, None) when all of it was cut short."""
    taken: set[tuple[int, str]] = field(default_factory=set)
    """Starts that were refused, because another execution has their id: (execution id, event id)."""
    early: Callable[[Sequence[Change]], Begun] | None = None
    """Begins commands of changes that are about to be written; those that are issued then are not in ``commands``."""
    ahead: Callable[[Command], CommandDone | None] | None = None
    """Runs a command before the change is written that issues it, and returns its outcome. None: the change has to be written first."""
    awaited: Callable[[int], bool] = lambda execution_id: False
    """Whether this process waits for the result of an execution."""
    results: dict[int, Any] = field(default_factory=dict)
    """Results of executions that completed and are awaited, with references for large values; as far as the engine knows them."""
    redriven: list[int] = field(default_factory=list)
    """Redriven executions: their work is needed again, regardless of earlier entries of ``dropped``."""

    def add(self, commands: Sequence[Command], events: Sequence[Event]) -> None:
        self.commands.extend(commands)
        self.events.extend(events)
