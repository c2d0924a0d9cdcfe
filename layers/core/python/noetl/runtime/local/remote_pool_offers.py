"""Offers: commands in the store that this process leaves to workers over HTTP."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.workers.lease_owners import offered
from noetl.domain.workers.lost_owners import MOST
from noetl.ports.executions.execution_store import ExecutionStore, Published

AGAIN_SECONDS = 1.0


class RemotePoolOffers:
    """The pools whose commands other workers run.

    ``pools``: their names. Commands stay offered while this process lives, whether or not such a worker does.
    """

    def __init__(self, store: ExecutionStore, owner: str, lease_seconds: float) -> None:
        self.pools: set[str] = set()
        self.on_offer: Callable[[str, int], None] = lambda pool, count: None
        """Is called with a pool, and how many commands are offered to it that can run now."""
        self._store, self._owner, self._lease_seconds = store, owner, lease_seconds

    def add(self, pool: str) -> None:
        self.pools.add(pool)
        self.keep()

    def keep(self) -> None:
        """Extend the leases of what is offered. Raises InfrastructureError."""
        for pool in sorted(self.pools):
            self._store.heartbeat(offered(pool), self._lease_seconds)

    def end(self) -> None:
        """Release what is offered and not taken, to any process that runs these pools.

        Raises InfrastructureError.
        """
        for pool in sorted(self.pools):
            self._store.release(offered(pool))

    def pass_on(self, commands: Sequence[Command], later: Callable[[Command], None]) -> Sequence[Command]:
        """Offer the commands of such pools, and return the others.

        ``later``: takes a command that could not be offered now, and brings it back. A command that too many processes
        have died of is not offered: this process answers it.
        """
        if not self.pools:
            return commands
        pools: defaultdict[str, list[Command]] = defaultdict(list)
        for command in commands:
            if command.lost < MOST:
                pools[command.pool].append(command)
        for pool in self.pools & pools.keys():
            try:
                self._store.hand_over(self._owner, Published(commands=pools[pool]), heir=offered(pool))
            except InfrastructureError:
                for command in pools[pool]:
                    later(msgspec.structs.replace(command, delay=max(AGAIN_SECONDS, command.delay)))
            else:
                self.on_offer(pool, sum(command.delay <= 0 for command in pools[pool]))
        return [command for command in commands if command.pool not in self.pools or command.lost >= MOST]
