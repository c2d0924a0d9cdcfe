"""The threads of requests: some that work, one more for each that waits, one for health."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")
_Job = tuple[Callable[[], None], Callable[[], object]]
"""What to do, and what to do instead when no thread does it."""


class _Pool:
    """Daemon threads that take jobs in turn. ``target``: how many there should be.

    A queue in C hands out the jobs: no thread holds a lock of it while it waits for the interpreter.
    """

    def __init__(self, name: str, target: int) -> None:
        self.threads: set[threading.Thread] = set()
        self.target = target
        self.changed = threading.Condition()
        """Guards the number of threads."""
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._leaving = 0
        """Threads that are asked to end, by a None in the queue for each."""
        self._name = name

    @property
    def waiting(self) -> int:
        """Count the jobs that no thread has begun."""
        return max(0, self._jobs.qsize() - self._leaving)

    def fit(self) -> None:
        """Start the threads that are missing, and ask those that are too many to end.

        Raises RuntimeError when the machine has no more.
        """
        while len(self.threads) - self._leaving < self.target:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            thread.start()
            self.threads.add(thread)
        while len(self.threads) - self._leaving > self.target:
            self._leaving += 1
            self._jobs.put(None)

    def put(self, job: _Job) -> None:
        self._jobs.put(job)

    def drop(self) -> list[_Job]:
        """Take the jobs that no thread has begun."""
        found: list[_Job] = []
        ends = 0
        with suppress(Empty):
            while True:
                if (job := self._jobs.get_nowait()) is None:
                    ends += 1
                else:
                    found.append(job)
        for _ in range(ends):
            self._jobs.put(None)
        return found

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job[0]()
        with self.changed:
            self._leaving -= 1
            self.threads.discard(threading.current_thread())
            self.changed.notify_all()


class RequestThreads:
    """The threads of a server.

    ``own``: how many requests are worked on at the same moment, beside those that wait for something else.
    """

    def __init__(self, own: int) -> None:
        self.own = own
        self._lent, self._closed = 0, False
        self._pool, self._apart = _Pool("noetl-request", own), _Pool("noetl-health", 1)

    @property
    def waiting(self) -> int:
        """Return how many requests wait for a thread."""
        return self._pool.waiting

    @property
    def threads(self) -> int:
        """Return how many threads there are for requests."""
        return len(self._pool.threads)

    def start(self) -> None:
        """Start the threads."""
        for pool in (self._pool, self._apart):
            with pool.changed:
                pool.fit()

    async def run(self, work: Callable[[], T], *, apart: bool = False) -> T:
        """Run ``work`` in a thread.

        Raises what it raises, and CancelledError when no thread has begun it before the end.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def settle(value: T | None, error: BaseException | None) -> None:
            if result.done():
                return
            if error is not None:
                result.set_exception(error)
            else:
                result.set_result(value)  # type: ignore[arg-type]  # what `work` returned

        def done(value: T | None, error: BaseException | None) -> None:
            with suppress(RuntimeError):  # the server has ended meanwhile
                loop.call_soon_threadsafe(settle, value, error)

        def job() -> None:
            try:
                value = work()
            except BaseException as error:
                done(None, error)
            else:
                done(value, None)

        (self._apart if apart else self._pool).put((job, result.cancel))
        return await result

    @contextmanager
    def lend(self) -> Iterator[bool]:
        """Let another request use a thread while the caller's waits.

        Yields False when no more threads can be started, and the caller should not wait.
        """
        lent = self._lend()
        try:
            yield lent
        finally:
            if lent:
                self._take_back()

    def _lend(self) -> bool:
        pool = self._pool
        with pool.changed:
            before = pool.target
            if not self._closed:
                pool.target = max(before, self.own + self._lent + 1)
                try:
                    pool.fit()
                except RuntimeError:
                    pool.target = before
                    return False
            self._lent += 1
            return True

    def _take_back(self) -> None:
        """Keep some threads for the next requests that wait, so that a repeated wait starts none."""
        pool = self._pool
        with pool.changed:
            self._lent -= 1
            if not self._closed:
                pool.target = min(pool.target, 2 * self.own + self._lent)
                pool.fit()

    def drop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up the requests that no thread has begun, and report that to ``loop``."""
        for pool in (self._pool, self._apart):
            for _, give_up in pool.drop():
                loop.call_soon_threadsafe(give_up)

    def close(self, seconds: float) -> None:
        """End the threads, and wait for them at most ``seconds``."""
        self._closed = True
        until = time.monotonic() + seconds
        for pool in (self._pool, self._apart):
            with pool.changed:
                pool.target = 0
                pool.fit()
                pool.changed.wait_for(lambda pool=pool: not pool.threads, max(0.0, until - time.monotonic()))  # type: ignore[misc]
