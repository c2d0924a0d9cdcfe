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

    Each command wakes one of them, the oldest first. One that was woken and found nothing wakes another, until the command has woken all.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: defaultdict[str, deque[_Wait]] = defaultdict(deque)
        self._released = False

    def offer(self, pool: str, count: int = 1) -> None:
        """Wake a request for each of ``count`` commands that can be claimed now."""
        with self._lock:
            for _ in range(min(count, len(self._waiting.get(pool, ())))):
                self._wake(pool, _News())

    def pass_on(self, pool: str, news: _News) -> None:
        """Wake the oldest request that this command has not woken."""
        with self._lock:
            self._wake(pool, news)

    def _wake(self, pool: str, news: _News) -> None:
        waiting = self._waiting.get(pool, ())
        if (one := next((one for one in waiting if one not in news.woken), None)) is not None:
            self._waiting[pool].remove(one)
            news.woken.append(one)
            one.wake(news)

    @contextmanager
    def expect(self, pool: str, fresh: bool = False) -> Iterator[_Wait]:
        """Yield a pause that a command of this pool ends.

        The request looks for the command then. ``fresh`` has no meaning here.
        """
        one = _Wait(self, pool)
        self.queue(one)
        try:
            yield one
        except BaseException:
            one.pass_on()
            raise
        finally:
            with self._lock:
                with suppress(ValueError):  # woken, so it is not in the queue
                    self._waiting[pool].remove(one)
                if not self._waiting[pool]:
                    del self._waiting[pool]
            if one.woken:  # after its last look: another request gets the command
                one.pass_on()

    def queue(self, one: _Wait) -> None:
        """Let a request wait behind the others."""
        with self._lock:
            self._waiting[one.pool].append(one)
            if self._released:
                one.wake(_News())

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
                    one.wake(_News())


class _News:
    """A command that can be claimed. ``woken``: the requests that it has woken."""

    def __init__(self) -> None:
        self.woken: list[_Wait] = []


class _Wait:
    """The pause of one request."""

    result: Any = UNSET

    def __init__(self, news: CommandNews, pool: str) -> None:
        self._all, self.pool = news, pool
        self._woken = threading.Event()
        self._news: _News | None = None
        """What it was woken by, and has not passed on."""

    @property
    def woken(self) -> bool:
        """Return whether a command has come since the last pause."""
        return self._woken.is_set()

    def wake(self, news: _News) -> None:
        """End the pause that is under way, or else the next one."""
        self._news = news
        self._woken.set()

    def pass_on(self) -> None:
        """Let another request have the command that this one was woken by."""
        news, self._news = self._news, None
        if news is not None:
            self._all.pass_on(self.pool, news)

    def __call__(self, seconds: float) -> bool:
        """Wait at most so long. True: there is nothing more to wait for."""
        if not self.woken:
            self.pass_on()  # the look after the last pause has found nothing
        if self._woken.wait(seconds):
            self._woken.clear()
            self._all.queue(self)
        return self._all.released
