"""Port of the registry of workers that fetch commands over HTTP, and of their leases.

Adapters: ``adapters/postgres`` and ``adapters/memory``.

What a worker has taken is leased to it, command by command (``domain/owners.lease``): each heartbeat extends the lease of one command.
What was not extended in time is free for any worker, as a further attempt, and what its first worker says after that is superseded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from noetl.domain.text.timestamps import Timestamp


class RunningCommand(msgspec.Struct, frozen=True):
    """``lease_seconds``: how long its worker may still be silent about it."""

    execution_id: str
    command_id: str
    attempt: int
    turn: int
    lease_seconds: float


class WorkerPool(msgspec.Struct, frozen=True):
    """A worker that fetches commands over HTTP.

    ``name``: of this worker, unique. ``pool``: whose commands it takes. ``capacity``: how many at once. ``running``: how many it has,
    ``commands`` which. ``alive``: its last heartbeat is recent.
    """

    name: str
    pool: str
    capacity: int
    principal: str
    registered_at: Timestamp
    seen_at: Timestamp
    running: int
    alive: bool
    commands: list[RunningCommand]


class Seen(msgspec.Struct, frozen=True):
    """``now``: by the store's clock, epoch seconds."""

    worker: WorkerPool
    now: float


Registered = Literal["registered", "taken", "full"]
"""``taken``: the name belongs to another principal. ``full``: there are too many workers."""
Reason = Literal["unknown", "done", "over", "paused", "early", "leased", "suspended", "offered"]


class CommandState(msgspec.Struct, frozen=True):
    """Why a command cannot be had.

    ``unknown``: its execution, or it, does not exist; ``done``: it was answered; ``over``: its execution is; ``offered``: to another
    pool, or it can be had by now. ``seconds``: until that changes, where it is known. ``holder``: whose it is.
    """

    reason: Reason
    seconds: float | None = None
    holder: str = ""


class CommandLeases(Protocol):
    """Leases of single commands.

    They are of workers over HTTP, and of those that were answered with them (``domain/workers/direct_requests.py``).

    Raises InfrastructureError when the store cannot be reached.
    """

    def extend(self, execution_id: int, command_id: str, attempt: int, turn: int, seconds: float) -> bool:
        """Extend the lease of a command for its worker; False when no worker has it (any more).

        The worker counts as alive, too.
        """

    def give_back(self, execution_id: int, command_id: str, attempt: int, turn: int) -> bool:
        """Offer a command to other workers again, as a further attempt; False: no worker has it.

        When its pool is not kept, the command has no owner afterwards.
        """

    def free(self, pool: str, worker: str) -> bool:
        """Free what this worker of this pool has, of any execution; False when it has nothing."""


class WorkerRegistry(CommandLeases, Protocol):
    """Safe to use from several threads.

    Raises InfrastructureError when the store cannot be reached.
    """

    def register(self, name: str, pool: str, capacity: int, principal: str, most: int) -> Registered:
        """Register a new worker, or the same one again for the same principal.

        At most ``most`` workers are registered altogether.
        """

    def seen(self, name: str, keep_seconds: float, principal: str = "") -> Seen | None:
        """Record that a worker lives; None: no worker of the principal has this name.

        ``keep_seconds`` > 0: what is offered to its pool stays offered for that long. ``principal``: who registered it; empty: anyone.
        """

    def drop(self, name: str, principal: str = "") -> bool:
        """Remove a worker and release its commands.

        False: no worker of the principal has this name.
        """

    def entries(self) -> Sequence[WorkerPool]:
        """By name."""

    def state(self, execution_id: int, command_id: str) -> CommandState:
        """Why it cannot be claimed."""

    def forget(self, older_than_seconds: float) -> None:
        """Workers that have been silent for so long are not listed any more."""


STALE_SECONDS = 60.0
"""After which a worker that is silent counts as gone, and its pool as one without it."""
