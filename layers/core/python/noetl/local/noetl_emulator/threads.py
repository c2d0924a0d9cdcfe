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

_lock = threading.Lock()
_given: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
_idle = 0
"""Threads that wait and have not been given anything."""


def improve() -> None:
    """Patch the emulator (its version is pinned)."""
    from ministack.core import concurrency, lambda_runtime

    concurrency.threading = lambda_runtime.threading = Threading()


class Threading:
    """The module ``threading`` with another ``Thread``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)

    @staticmethod
    def Thread(target: Callable[[], Any], **options: Any) -> Any:  # noqa: N802
        """Make a thread; one that is used again for a short piece of work."""
        if target.__name__ in SHORT and not options.get("args"):
            return ShortThread(target)
        return threading.Thread(target=target, **options)


class ShortThread:
    """The part of ``threading.Thread`` that the emulator needs."""

    def __init__(self, target: Callable[[], Any]) -> None:
        self._target = target
        self._running = threading.Lock()

    def start(self) -> None:
        """Begin. Raises RuntimeError when a thread is needed and none can be started."""
        global _idle
        self._running.acquire()
        with _lock:
            if _idle:
                _idle -= 1
                _given.put(self._work)
                return
        threading.Thread(target=_serve, args=(self._work,), daemon=True).start()

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


def _serve(work: Callable[[], None] | None) -> None:
    while work is not None:
        work()
        work = _next()


def _next() -> Callable[[], None] | None:
    """Wait for the next piece of work. None: the thread is not needed."""
    global _idle
    with _lock:
        _idle += 1
    while True:
        try:
            return _given.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            with _lock:
                if _given.empty():
                    _idle -= 1
                    return None
