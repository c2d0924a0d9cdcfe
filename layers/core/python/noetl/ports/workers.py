"""Port of the registry of workers that fetch commands over HTTP, and of their leases.

Adapters: ``adapters/postgres`` and ``adapters/memory``.

What a worker has taken is leased to it, command by command (``domain/owners.lease``): each sign of life extends the lease of one command.
What was not extended in time is anybody's, as a further attempt, and what its first worker says after that is superseded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec


class RunningCommand(msgspec.Struct, frozen=True):
    """``lease_seconds``: how long its worker may still be silent about it."""

    execution_id: str
    command_id: str
    attempt: int
    turn: int
    lease_seconds: float


class WorkerPool(msgspec.Struct, frozen=True):
    """``name``: of this worker, unique. ``pool``: whose commands it takes. ``capacity``: how many at once. ``running``: how many it has,
    ``commands`` which. ``alive``: it gave a sign of life lately. Times are epoch seconds; ``now`` is the store's."""

    name: str
    pool: str
    capacity: int
    principal: str
    registered_at: float
    seen_at: float
    running: int
    alive: bool
    commands: list[RunningCommand]


class Seen(msgspec.Struct, frozen=True):
    """``now``: by the store's clock, epoch seconds."""

    worker: WorkerPool
    now: float


Registered = Literal["registered", "taken", "full"]
"""``taken``: the name is somebody else's. ``full``: there are too many workers."""
Reason = Literal["unknown", "done", "over", "paused", "early", "leased", "suspended", "offered"]


class CommandState(msgspec.Struct, frozen=True):
    """Why a command cannot be had. ``unknown``: its execution, or it, does not exist; ``done``: it was answered; ``over``: its execution
    is; ``offered``: to another pool, or it can be had by now. ``seconds``: until that changes, where it is known. ``holder``: whose it is."""

    reason: Reason
    seconds: float | None = None
    holder: str = ""


class CommandLeases(Protocol):
    """Leases of single commands: of workers over HTTP, and of those that were answered with them (``domain/workers/direct_requests.py``).

    Raises InfrastructureError when the store cannot be reached.
    """

    def extend(self, execution_id: int, command_id: str, attempt: int, turn: int, seconds: float) -> bool:
        """Whoever has this command has it for so much longer; False when nobody has (any more). Its worker lives, too."""

    def give_back(self, execution_id: int, command_id: str, attempt: int, turn: int) -> bool:
        """It is offered to others, as a further attempt, where its pool is kept, and nobody's otherwise; False when nobody has it."""

    def free(self, execution_id: int, pool: str, worker: str) -> bool:
        """What this worker of this pool has of an execution is nobody's; False when it has nothing of it."""


class WorkerRegistry(CommandLeases, Protocol):
    """Safe to use from several threads. Raises InfrastructureError when the store cannot be reached."""

    def register(self, name: str, pool: str, capacity: int, principal: str, most: int) -> Registered:
        """Anew, or again by the same principal; at most ``most`` altogether."""

    def seen(self, name: str, keep_seconds: float) -> Seen | None:
        """It lives. ``keep_seconds`` > 0: and so, for that long, does what is offered to its pool. None: nobody has this name."""

    def drop(self, name: str) -> bool:
        """Remove a worker and release its commands. False: no worker has this name."""

    def entries(self) -> Sequence[WorkerPool]:
        """By name."""

    def state(self, execution_id: int, command_id: str) -> CommandState:
        """Why it cannot be claimed."""

    def forget(self, older_than_seconds: float) -> None:
        """Workers that have been silent for so long are not listed any more."""


STALE_SECONDS = 60.0
"""After which a worker that is silent counts as gone, and its pool as one without it."""
