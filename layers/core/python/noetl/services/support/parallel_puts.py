"""Parallel writes to the result store, so that parts of a list share their round trips."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from noetl.ports.results import ResultStore

AT_ONCE = 8
ALONE = 4
"""The first few are written one after the other: most lists have no more, and threads are not worth it."""


class ParallelPuts:
    """A context manager of parallel writes, which holds a few objects at most.

    Everything is durable when it is left without an exception.
    """

    def __init__(self, store: ResultStore) -> None:
        self._store = store
        self._pool: ThreadPoolExecutor | None = None
        self._running: deque[Future[None]] = deque()
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._pool is None:
            return
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)
        if kind is None:
            self._settle(0)

    def put(self, uri: str, data: bytes) -> None:
        """Raises what an earlier one raised: InfrastructureError, mostly."""
        self._count += 1
        if self._count <= ALONE:
            self._store.put(uri, data)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(AT_ONCE, "noetl-parts")
        self._running.append(self._pool.submit(self._store.put, uri, data))
        self._settle(AT_ONCE)

    def _settle(self, most: int) -> None:
        while len(self._running) > most:
            self._running.popleft().result()
