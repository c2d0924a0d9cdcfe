"""News of commands that workers over HTTP may claim, for their requests that wait for one."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import UNSET


class CommandNews:
    """The requests that wait for commands of a pool.

    Each command wakes one of them, the oldest first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: defaultdict[str, deque[_Wait]] = defaultdict(deque)
        self._released = False

    def offer(self, pool: str, count: int = 1) -> None:
        """Wake a request for each of ``count`` commands that can be claimed now."""
        with self._lock:
            waiting = self._waiting.get(pool, ())
            for _ in range(min(count, len(waiting))):
                self._waiting[pool].popleft().wake()

    @contextmanager
    def expect(self, pool: str, fresh: bool = False) -> Iterator[_Wait]:
        """Yield a pause that a command of this pool ends.

        The request looks for the command then. ``fresh``: has no meaning here.
        """
        one = _Wait(self, pool)
        self.queue(one, pool)
        try:
            yield one
        finally:
            with self._lock:
                with suppress(ValueError):  # woken, so it is not in the queue
                    self._waiting[pool].remove(one)
                if not self._waiting[pool]:
                    del self._waiting[pool]
            if one.woken:  # after its last look: another request gets the command
                self.offer(pool)

    def queue(self, one: _Wait, pool: str) -> None:
        """Let a request wait behind the others."""
        with self._lock:
            self._waiting[pool].append(one)
            if self._released:
                one.wake()

    @property
    def released(self) -> bool:
        """Return whether nothing waits any more."""
        return self._released

    def release(self) -> None:
        """Wake all waits, present and future ones: this process ends."""
        with self._lock:
            self._released = True
            for waiting in self._waiting.values():
                for one in waiting:
                    one.wake()


class _Wait:
    """The pause of one request."""

    result: Any = UNSET

    def __init__(self, news: CommandNews, pool: str) -> None:
        self._news, self._pool = news, pool
        self._woken = threading.Event()

    @property
    def woken(self) -> bool:
        """Return whether a command has come since the last pause."""
        return self._woken.is_set()

    def wake(self) -> None:
        """End the pause that is under way, or else the next one."""
        self._woken.set()

    def __call__(self, seconds: float) -> bool:
        """Wait at most so long. True: there is nothing more to wait for."""
        if self._woken.wait(seconds):
            self._woken.clear()
            self._news.queue(self, self._pool)
        return self._news.released
