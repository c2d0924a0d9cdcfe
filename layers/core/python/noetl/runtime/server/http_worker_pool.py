"""The HTTP workers of a server, which share its commands with the server's own threads."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.postgres.workers import PostgresWorkers
from noetl.caching.lru_cache import LruCache
from noetl.domain.commands import Command
from noetl.ports.executions.execution_store import Published
from noetl.ports.workers import Seen, WorkerPool
from noetl.runtime.local.command_news import CommandNews
from noetl.runtime.local.process import LocalRuntime
from noetl.services.worker.http_worker_leases import LEASE_SECONDS, MOST_WORKERS, Claims


class RemoteWork(Claims):
    """The claims of HTTP workers.

    Commands of pools that ``runtime`` leaves to others are offered in the store; of the other pools, workers take what
    waits in this process.
    """

    def __init__(self, runtime: LocalRuntime, *, lease_seconds: float = LEASE_SECONDS) -> None:
        registry = PostgresWorkers(runtime.opened.database)
        super().__init__(registry, runtime.store, runtime.pools, lease_seconds=lease_seconds)
        self._runtime = runtime
        self.news = CommandNews()
        """What requests wait for that claim commands. Of pools that ``runtime`` runs itself there is none: workers help there."""
        runtime.offers.on_offer = self.news.offer
        self._pools: LruCache[tuple[str, str], str] = LruCache(MOST_WORKERS)
        """(worker, who asked) → its pool, as it was last registered here."""

    def register(self, name: str, pool: str, capacity: int, principal: str) -> WorkerPool:
        made = super().register(name, pool, capacity, principal)
        self._pools = LruCache(MOST_WORKERS)
        return made

    def pool_of(self, name: str, principal: str = "") -> str:
        """Return the pool as this process knows it.

        A worker that another server has registered again, for another pool, is found by the looks at the store.
        """
        pool = self._pools.get((name, principal))
        if pool is None:
            pool = super().pool_of(name, principal)
            self._pools.put((name, principal), pool)
        return pool

    def deregister(self, name: str, principal: str = "") -> None:
        super().deregister(name, principal)
        self._runtime.keeper.adopt()

    def give_back(self, execution_id: int, command_id: str, attempt: int, turn: int) -> bool:
        freed = super().give_back(execution_id, command_id, attempt, turn)
        self._runtime.keeper.adopt()
        return freed

    def _take(self, seen: Seen, limit: int, only: tuple[int, str] | None) -> Sequence[Command]:
        waiting = self._runtime.take(seen.worker.pool, limit, only)
        if waiting:
            try:
                self.store.hand_over(self._runtime.owner, Published(commands=waiting), heir=self._owner(seen))
            except BaseException:
                # As far as this process knows, it still holds their leases, and no other process runs them while it lives.
                self._runtime.dispatch(*waiting)
                raise
        return waiting or super()._take(seen, limit, only)
