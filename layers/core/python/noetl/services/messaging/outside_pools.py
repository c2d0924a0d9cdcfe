"""The pools whose commands are fetched over HTTP, as a warm engine knows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from noetl.ports.executions.execution_store import LoadRequest

MOST_SECONDS = 5.0
"""Age of a look that still names pools: after it, one statement looks again before commands are offered."""


class _Store(Protocol):
    @property
    def fetched(self) -> frozenset[str]: ...

    def load(self, requests: Sequence[LoadRequest]) -> Any: ...


class OutsidePools:
    """Calling it returns the pools that have a worker outside of the deployment.

    Each load of snapshots brings them, too. An engine that has all snapshots in memory loads none, and would offer
    commands to a pool whose last worker has gone. Where no pool is known nothing is asked: a queue serves every pool.
    """

    def __init__(self, store: _Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._looked = clock()

    def __call__(self) -> frozenset[str]:
        if self._store.fetched and self._clock() - self._looked > MOST_SECONDS:
            self._store.load([])
            self._looked = self._clock()
        return self._store.fetched
