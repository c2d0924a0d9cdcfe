"""Threads that are used again, for what the emulator starts a thread for each time.

That is two for each invocation, and one more where a queue or an event causes it: a tenth of the emulator's processor time.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

SHORT = frozenset({"_read_response", "_run"})
"""Functions of the emulator that end with one invocation, or one request."""
IDLE_SECONDS = 5.0


def improve() -> None:
    """Patch the emulator (its version is pinned)."""
    from ministack.core import concurrency, lambda_runtime

    concurrency.threading = lambda_runtime.threading = Threading()


class Threading:
    """The module ``threading`` with another ``Thread``."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._pool = Pool(idle_seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)

    def Thread(self, target: Callable[[], Any], **options: Any) -> Any:  # noqa: N802
        """Make a thread; one that is used again for a short piece of work."""
        if target.__name__ in SHORT and not options.get("args"):
            return ShortThread(self._pool, target)
        return threading.Thread(target=target, **options)


class Pool:
    """Threads that wait for the next piece of work, and end when none comes in time.

    As ``noetl.services.worker.crew``, which a program that runs in the emulator's interpreter cannot import.
    """

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._given: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.idle = 0
        """Threads that wait and have not been given anything."""

    def start(self, work: Callable[[], None]) -> None:
        """Begin it. Raises RuntimeError when a thread is needed and none can be started."""
        with self._lock:
            if self.idle:
                self.idle -= 1
                self._given.put(work)
                return
        threading.Thread(target=self._serve, args=(work,), daemon=True).start()

    def _serve(self, work: Callable[[], None] | None) -> None:
        while work is not None:
            work()
            work = self._next()

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next piece of work. None: the thread is not needed."""
        with self._lock:
            self.idle += 1
        while True:
            try:
                return self._given.get(timeout=self._idle_seconds)
            except queue.Empty:
                with self._lock:
                    if self._given.empty():
                        self.idle -= 1
                        return None


class ShortThread:
    """The part of ``threading.Thread`` that the emulator needs."""

    def __init__(self, pool: Pool, target: Callable[[], Any]) -> None:
        self._pool = pool
        self._target = target
        self._running = threading.Lock()

    def start(self) -> None:
        """Begin. Raises RuntimeError when a thread is needed and none can be started."""
        self._running.acquire()
        try:
            self._pool.start(self._work)
        except BaseException:
            self._running.release()
            raise

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, at most for so many seconds."""
        if self._running.acquire(timeout=-1 if timeout is None else timeout):
            self._running.release()

    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return self._running.locked()

    def _work(self) -> None:
        try:
            self._target()
        finally:
            self._running.release()
