"""Workers that fetch their commands over HTTP, and what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from noetl.domain.commands import Command


class WorkerPool(msgspec.Struct, frozen=True):
    """``name``: of this worker, unique. ``pool``: whose commands it takes. ``capacity``: how many at once. ``running``: how many it has.
    Times are epoch seconds."""

    name: str
    pool: str
    capacity: int
    principal: str
    registered_at: float
    seen_at: float
    running: int


class Workers(Protocol):
    """Safe to use from several threads."""

    lease_seconds: float
    """How long a worker may be silent about a command before somebody else gets it."""

    def register(self, name: str, pool: str, capacity: int, principal: str) -> WorkerPool:
        """Anew, or again. Raises InvalidInputError(code="pool_unknown")."""

    def heartbeat(self, name: str) -> WorkerPool:
        """It lives, and so do its commands. Raises NotFoundError(code="worker_not_found")."""

    def deregister(self, name: str) -> None:
        """It ends: what it has is for others, at once. Raises NotFoundError."""

    def entries(self) -> Sequence[WorkerPool]:
        """By name."""

    def claim(self, name: str, limit: int) -> Sequence[Command]:
        """Commands of its pool, at most ``limit`` and its free capacity. Raises NotFoundError."""

    def give_back(self, execution_id: int, command_id: str, attempt: int, turn: int) -> None:
        """It is for somebody else, at once."""
