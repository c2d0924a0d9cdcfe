"""The dependencies of a batch of commands, and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from noetl.domain.commands import Command
from noetl.dsl.program import Program
from noetl.ports.command_tries import TriesStore
from noetl.ports.credentials import Credentials
from noetl.ports.queue import Queue
from noetl.ports.revocations import Revocations
from noetl.services.messaging.back_off import USUAL, BackOff
from noetl.services.messaging.large_messages import MESSAGE_LIMIT
from noetl.services.worker.cancellation_marks import RevocationWatch
from noetl.services.worker.direct_outcomes import DirectOutcomes
from noetl.services.worker.worker_deps import WorkerDeps

BETWEEN_SECONDS = 0.5
"""Of short calls that follow one another, not each one asks whether it is still wanted."""


def _nobody(execution_id: int) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class BatchDeps:
    """The dependencies of a batch of commands.

    ``slots``: pool → commands that run at once (``io`` is required and is used for pools without an entry). ``revoked``: looks it up
    now; see ``WorkerDeps.revoked`` for the cheap one. ``marks``: for (a command, its token), where a worker can ask about no command
    but its own. ``lease_seconds``: how long the queue waits for a heartbeat of a worker that takes more than a moment; 0 leaves the
    queue's own visibility alone. ``credentials``: for (a command, its token), where a worker has to prove which command it runs;
    without it, those of ``worker``. ``exactly``: the program with a digest, where programs are read from a store that others may write
    to. ``about``: names the execution in what its thread logs. ``now``: epoch seconds. ``tries``: counts how often commands are begun;
    without it, deliveries count. ``back_off``: pauses while a dependency is unavailable. ``direct``: hands outcomes over by request; None:
    all go through the queue of events.
    """

    worker: WorkerDeps
    commands: Queue
    events: Queue
    slots: Mapping[str, int]
    revoked: Callable[[int, int], bool] = lambda execution_id, run: False
    message_limit: int = MESSAGE_LIMIT
    lease_seconds: int = 60
    credentials: Callable[[Command, str], Credentials] | None = None
    marks: Callable[[Command, str], Revocations] | None = None
    exactly: Callable[[str, str], Program] | None = None
    about: Callable[[int], AbstractContextManager[None]] = _nobody
    now: Callable[[], float] = time.time
    tries: TriesStore | None = None
    back_off: BackOff = USUAL
    direct: DirectOutcomes | None = None

    def worker_of(self, command: Command, token: str, callbacks: str, digest: str) -> WorkerDeps:
        """Return the worker dependencies of one command.

        ``token``, ``callbacks`` and ``digest`` came with the command.
        """
        worker = self.worker
        changes: dict[str, Any] = {}
        if callbacks:
            changes["callback_key"] = lambda command: callbacks
        if (exactly := self.exactly) is not None:
            changes["programs"] = lambda program: exactly(program, digest)
        if self.marks is not None:
            marks = self.marks(command, token)
            between = RevocationWatch(marks, worker.clock, BETWEEN_SECONDS)
            changes["revoked"] = RevocationWatch(marks, worker.clock)
            changes["withdrawn"] = lambda command: between.now(command.execution_id, command.run)
        if self.credentials is not None:
            changes["credentials"] = self.credentials(command, token)
        return replace(worker, **changes) if changes else worker


@dataclass(slots=True)
class CommandBatchResult:
    """Result of a batch.

    ``give_back``: ids of messages that the queue has to keep; all others are done.
    """

    give_back: list[str] = field(default_factory=list)
    commands: int = 0
    failures: int = 0
    """Commands that could not be run, or not to the end, for reasons that are not the playbook's."""
    revoked: int = 0
    lost: int = 0
    refused: int = 0
    """Messages that are no commands."""
    events: int = 0
    sends: int = 0
    direct: int = 0
    """Outcomes that were decided by request."""
    taken: int = 0
    """Commands that came in the answers."""
    executions: set[int] = field(default_factory=set)
