"""Requests that wait for an end or for a command: few at once, with growing pauses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Generic, Protocol, TypeVar

from msgspec import UNSET

LONGEST = 60.0
"""Most seconds that a request may ask for."""
FIRST_PAUSE, LONGEST_PAUSE, SLOWER = 0.1, 2.0, 1.5
"""Seconds between two looks at the store, and the factor by which they grow."""


K = TypeVar("K")
"""What a request waits for: an execution by its id, or commands of a pool by its name."""


class Pause(Protocol):
    """A wait.

    ``result``: what the execution completed with, where this process knows it; else UNSET.
    """

    result: Any

    def __call__(self, seconds: float) -> bool:
        """Wait for so many seconds at most. True: there is nothing more to wait for."""


class Sleep:
    """A pause that nothing cuts short."""

    result: Any = UNSET

    def __call__(self, seconds: float) -> bool:
        time.sleep(seconds)
        return False


@contextmanager
def no_signal(key: object, fresh: bool) -> Iterator[Pause]:
    """Give a pause that nothing cuts short: where no engine runs in this process."""
    yield Sleep()


class Waiting(Generic[K]):
    """Requests that wait for the end of an execution, or for a command of a pool.

    ``places``: how many requests may wait at the same moment; None: any number. ``longest``: seconds from the beginning of a request
    within which it is answered. ``first_pause``: before the first look; ``next_pause``: after it (None: as the factor says); ``slower``:
    the factor of the pauses from there on. ``last_look``: look once more when the time is over. ``expect``: returns the pause, which ends
    when this process learns of what is waited for; its second argument says whether the execution was started a moment ago, so that no
    redrive of it is possible. ``clock``: epoch seconds; ``ticks``: seconds of a clock that is never set. ``beside``: entered while a
    request waits; yields whether it may.
    """

    def __init__(
        self,
        places: int | None = None,
        *,
        longest: float = LONGEST,
        expect: Callable[[K, bool], AbstractContextManager[Pause]] = no_signal,
        first_pause: float = FIRST_PAUSE,
        next_pause: float | None = None,
        slower: float = SLOWER,
        last_look: bool = True,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
        beside: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(True),
    ) -> None:
        self._beside = beside
        self._places = None if places is None else threading.Semaphore(places)
        self._longest, self._expect = longest, expect
        self._clock, self._ticks, self._last_look = clock, ticks, last_look
        self._first, self._slower = first_pause, slower
        self._next = first_pause * slower if next_pause is None else next_pause

    def wait(
        self,
        key: K,
        seconds: float,
        over: Callable[[], bool],
        *,
        since: float,
        fresh: bool = False,
    ) -> Any:
        """Wait for what ``key`` names until the time has passed.

        Without a free place, do not wait at all.

        Return what the execution completed with, where this process knows that; else UNSET.
        ``since``: when the request came. ``fresh``: it has started the execution. ``over`` looks at the store: another process may bring
        about the end.
        """
        places = self._places
        if places is not None and not places.acquire(blocking=False):
            return UNSET
        try:
            with self._beside() as may_wait, self._expect(key, fresh) as pause:
                if may_wait:
                    left = min(seconds, self._longest) - max(0.0, self._clock() - since)
                    self._wait(pause, self._ticks() + left, over)
                return pause.result
        finally:
            if places is not None:
                places.release()

    def _wait(self, pause: Pause, until: float, over: Callable[[], bool]) -> None:
        seconds, following = self._first, self._next
        while (left := until - self._ticks()) > 0:
            if pause(min(seconds, left)):
                return
            if (self._last_look or self._ticks() < until) and over():
                return
            seconds, following = following, min(following * self._slower, LONGEST_PAUSE)
