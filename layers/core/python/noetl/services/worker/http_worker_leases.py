"""Leases of workers that fetch commands over HTTP: register, claim, send heartbeats, end.

Nothing of it is in memory, so any process (and any function) answers the next request of a worker.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from noetl.domain.commands import Command
from noetl.domain.errors import ConflictError, GoneError, InvalidInputError, NotFoundError
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import WORKERS
from noetl.domain.workers.lease_owners import lease
from noetl.ports.executions.execution_store import ExecutionStore, Fence, LoadRequest, Offer
from noetl.ports.workers import STALE_SECONDS, CommandState, Seen, WorkerPool, WorkerRegistry

LEASE_SECONDS = 60.0
FORGET_SECONDS = 600.0
"""After which a worker that never said goodbye is not listed any more."""
MOST_WORKERS = WORKERS.value
AGAIN_SECONDS = 5.0
"""When to ask again for a command whose next free moment is unknown."""


class Claims:
    """The registry and the leases of HTTP workers.

    ``pools``: whose commands there are. ``lease_seconds``: how long a worker may send no heartbeat for a command before another worker
    gets it. ``keeps_pools``: what is offered to a pool stays so for as long as one of its workers lives (else: while the process that
    offers it renews the offer).
    """

    def __init__(
        self,
        registry: WorkerRegistry,
        store: ExecutionStore,
        pools: Collection[str],
        *,
        lease_seconds: float = LEASE_SECONDS,
        keeps_pools: bool = False,
    ) -> None:
        self.registry, self.store, self.pools = registry, store, pools
        self.lease_seconds = lease_seconds
        self._kept = STALE_SECONDS if keeps_pools else 0.0

    # --- workers ---

    def register(self, name: str, pool: str, capacity: int, principal: str) -> WorkerPool:
        """Register a worker, for the first time or again.

        Raises InvalidInputError(code="pool_unknown", "worker_name_taken", "too_many_workers").
        """
        if pool not in self.pools:
            raise InvalidInputError(
                f"there is no pool {pool[:40]!r}",
                code="pool_unknown",
                hint=f"pools are {', '.join(sorted(self.pools))}",
            )
        self.registry.forget(FORGET_SECONDS)
        made = self.registry.register(name, pool, capacity, principal, MOST_WORKERS)
        if made == "full":
            raise exceeded(
                WORKERS,
                MOST_WORKERS + 1,
                "the list of workers",
                code="too_many_workers",
                remedy="end one first, or give each of them more capacity",
            )
        if made == "taken":
            raise InvalidInputError(
                f"{name!r} is the name of another principal's worker", code="worker_name_taken"
            )
        return self.heartbeat(name, principal)

    def heartbeat(self, name: str, principal: str = "") -> WorkerPool:
        """Record that a worker lives; this extends no lease of its commands.

        ``principal``: who registered it, here and below; empty: an administrator. Raises NotFoundError(code="worker_not_found").
        """
        return self._seen(name, principal).worker

    def pool_of(self, name: str, principal: str = "") -> str:
        """Return the pool of a worker that lives. Raises NotFoundError."""
        return self.heartbeat(name, principal).pool

    def deregister(self, name: str, principal: str = "") -> None:
        """End a worker: its commands are available to other workers at once. Raises NotFoundError."""
        if not self.registry.drop(name, principal):
            raise _nobody(name)

    def entries(self) -> Sequence[WorkerPool]:
        """List the workers by name.

        Those without a recent heartbeat are included (not ``alive``); after some minutes they are forgotten.
        """
        self.registry.forget(FORGET_SECONDS)
        return self.registry.entries()

    # --- commands ---

    def claim(self, name: str, limit: int, principal: str = "") -> Sequence[Command]:
        """Claim commands of the worker's pool, at most ``limit`` and its free capacity.

        Raises NotFoundError.
        """
        seen = self._seen(name, principal)
        free = min(limit, seen.worker.capacity - seen.worker.running)
        return self._take(seen, free, None) if free > 0 else ()

    def claim_one(self, name: str, execution_id: int, command_id: str, principal: str = "") -> Command:
        """Claim this command for a worker.

        Raises NotFoundError (no worker has this name; no such command), ConflictError (not now: another worker has it, it is not due,
        its execution is paused, the worker is full), GoneError (it was answered, or its execution is over).
        """
        seen = self._seen(name, principal)
        if seen.worker.running >= seen.worker.capacity:
            raise _not_now(f"{name} has {seen.worker.running} commands already", "worker_full", AGAIN_SECONDS)
        found = self._take(seen, 1, (execution_id, command_id))
        if found:
            return found[0]
        raise self._refusal(execution_id, command_id, seen.worker.pool)

    def renew_lease(self, execution_id: int, command_id: str, attempt: int, turn: int) -> bool:
        """Extend the lease of a command.

        False when this turn of it is no longer wanted: it was answered, withdrawn, or given to another worker.
        """
        extended = self.registry.extend(execution_id, command_id, attempt, turn, self.lease_seconds)
        return extended or self._is_open(execution_id, command_id, Fence(attempt, turn))

    def give_back(self, execution_id: int, command_id: str, attempt: int, turn: int) -> bool:
        """Release a command to other workers at once. False when no worker has it any more."""
        return self.registry.give_back(execution_id, command_id, attempt, turn)

    # --- inside ---

    def _is_open(self, execution_id: int, command_id: str, fence: Fence) -> bool:
        loaded = self.store.load([LoadRequest(execution_id, commands=(command_id,))])
        snapshot = loaded.executions.get(execution_id)
        return snapshot is not None and snapshot.fences.get(command_id) == fence

    def _take(self, seen: Seen, limit: int, only: tuple[int, str] | None) -> Sequence[Command]:
        return self.store.claim(self._owner(seen), limit, Offer(seen.worker.pool, only))

    def _owner(self, seen: Seen) -> str:
        return lease(seen.now + self.lease_seconds, seen.worker.pool, seen.worker.name)

    def _seen(self, name: str, principal: str) -> Seen:
        """Look up a worker of a principal. To others it is not there: its commands are not theirs."""
        seen = self.registry.seen(name, self._kept, principal)
        if seen is None:
            raise _nobody(name)
        return seen

    def _refusal(self, execution_id: int, command_id: str, pool: str) -> Exception:
        what = f"command {command_id[:80]} of execution {execution_id}"
        state = self.registry.state(execution_id, command_id)
        match state.reason:
            case "unknown":
                return NotFoundError(f"there is no {what}", code="command_not_found")
            case "done":
                return GoneError(f"{what} was answered", code="command_done")
            case "over":
                return GoneError(f"{what} is not wanted any more", code="execution_ended")
        return _not_now(*_why(what, state, pool), AGAIN_SECONDS if state.seconds is None else state.seconds)


def _why(what: str, state: CommandState, pool: str) -> tuple[str, str]:
    """Explain a refusal as (message, code)."""
    match state.reason:
        case "paused":
            return f"{what} waits until its execution is resumed", "execution_paused"
        case "suspended":
            return f"{what} waits for a sub-execution", "command_suspended"
        case "early":
            return f"{what} is not due", "command_not_due"
        case "leased":
            return f"{state.holder[:100]} has {what}", "command_leased"
    if state.holder not in ("", pool):
        return f"{what} is for workers of {state.holder}", "command_of_another_pool"
    return f"{what} was not free just now", "command_leased"


def _not_now(message: str, code: str, seconds: float) -> ConflictError:
    retry_after = max(1, math.ceil(seconds))
    return ConflictError(message, code=code, retryable=True, details={"retry_after": retry_after})


def _nobody(name: str) -> NotFoundError:
    return NotFoundError(
        f"there is no worker {name[:80]!r}",
        code="worker_not_found",
        hint="register it (again): POST /api/worker/pool/register",
    )
