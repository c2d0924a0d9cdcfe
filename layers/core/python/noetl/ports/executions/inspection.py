"""Port of the inspection of outstanding work, to diagnose a system that makes no progress.

It only reads, and never blocks work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec


class OpenCommand(msgspec.Struct, frozen=True):
    """A command that has not been answered.

    ``waiting``: for a sub-execution. ``owner``: the process or worker that has it (domain/workers/lease_owners.py), or empty. ``alive``:
    whether the owner still sends heartbeats. ``due_for``: seconds since it may be run (negative: until then). ``lost``: processes that
    died while they ran this turn. ``remote``: its work runs in another system, and it asks for its progress.
    """

    command_id: str
    run: int
    attempt: int
    turn: int
    waiting: bool
    owner: str
    alive: bool
    due_for: float
    lost: int = 0
    remote: bool = False


class OpenWork(msgspec.Struct, frozen=True):
    """Outstanding work of one execution.

    ``counts``: as the store's ``open_work`` counts it. ``oldest``: seconds since the first of its events in the outbox may be delivered
    (negative: until then; 0: there is none).
    """

    counts: Mapping[str, int]
    oldest: float


class PoolWork(msgspec.Struct, frozen=True):
    """Counts of the commands of one pool.

    ``ready``: due, and without an owner; ``delayed``: not due yet; ``leased``: a worker has them; ``suspended``: they wait for a
    sub-execution. ``oldest``: seconds that the oldest due one has been due, with or without an owner.
    """

    pool: str
    ready: int
    delayed: int
    leased: int
    suspended: int
    oldest: float


class Lease(msgspec.Struct, frozen=True):
    """Who has how many commands (``pool`` of them).

    ``seconds``: of the lease that are left, where there is one (processes have).
    """

    owner: str
    pool: str
    commands: int
    alive: bool
    seconds: float | None


class Outstanding(msgspec.Struct, frozen=True):
    """Outstanding work of the store.

    ``events``: in the outbox. ``partly``: there is more than was looked at, numbers of commands are those of the oldest. ``unreadable``:
    rows of commands and of the outbox that are set aside, because they cannot be read.
    """

    pools: Sequence[PoolWork]
    leases: Sequence[Lease]
    events: int
    timers: int
    partly: bool
    unreadable: int = 0


class Backlog(msgspec.Struct, frozen=True):
    """Counts of work that waits.

    ``events``: on their way to the engine, those of accepted batches included. ``commands``: due, and not answered.
    """

    events: int
    commands: int


class Inspection(Protocol):
    """Raises InfrastructureError when the store cannot be reached."""

    def open_commands(self, execution_id: int, limit: int) -> Sequence[OpenCommand]:
        """The oldest first."""

    def open_work(self, execution_id: int) -> OpenWork:
        """Count outstanding work, with the age of what is in the outbox."""

    def outstanding(self, limit: int = 10_000) -> Outstanding:
        """All executions together; at most ``limit`` commands are looked at."""

    def backlog(self, most: int) -> Backlog:
        """Count what waits, each up to ``most``.

        What is held for later (paused executions, later starts) does not count.
        """
