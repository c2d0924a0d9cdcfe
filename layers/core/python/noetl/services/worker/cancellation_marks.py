"""Cached lookups of whether work is still wanted: asked often, looked up seldom."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from noetl.caching.lru_cache import LruCache
from noetl.domain.errors import InfrastructureError
from noetl.ports.revocations import Revocations

EVERY_SECONDS = 5.0
"""Work younger than this is not looked up at all, and none more often: a mark saves work, and looking costs a request."""
MOST = 1000


@dataclass(slots=True)
class _Known:
    looked: float
    revoked: bool = False


class RevocationWatch:
    """A cache of revocations that the threads of a worker share.

    ``clock``: monotonic seconds. ``every``: seconds for which an answer is good.
    """

    def __init__(
        self,
        revocations: Revocations,
        clock: Callable[[], float] = time.monotonic,
        every: float = EVERY_SECONDS,
    ) -> None:
        self._revocations = revocations
        self._clock = clock
        self._every = every
        self._known: LruCache[tuple[int, int], _Known] = LruCache(MOST)
        self._lock = threading.Lock()
        """Of a look: one thread asks, and the others take the last answer."""

    def __call__(self, execution_id: int, run: int) -> bool:
        """Return whether work is revoked; work asked about for the first time counts as wanted.

        Fits ``WorkerDeps.revoked``.
        """
        return self._ask(execution_id, run, fresh=True)

    def now(self, execution_id: int, run: int) -> bool:
        """Look up whether work that has been waiting is revoked."""
        return self._ask(execution_id, run, fresh=False)

    def _ask(self, execution_id: int, run: int, *, fresh: bool) -> bool:
        now = self._clock()
        with self._lock:
            known = self._known.get((execution_id, run))
            if known is None:
                known = _Known(now)
                self._known.put((execution_id, run), known)
                if fresh:
                    return False
            elif known.revoked or now - known.looked < self._every:
                return known.revoked
            known.looked = now
        try:
            known.revoked = self._revocations.is_revoked(execution_id, run)
        except InfrastructureError:
            return False
        return known.revoked
