"""Threads that are used again: to start one takes as long as half of a small command."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Work = Callable[[], None]

IDLE_SECONDS = 5.0
"""After which a thread without work ends."""


class Crew:
    """Threads for pieces of work that all run at once: a thread is started where none is idle.

    Thread-safe. What an unending piece of work keeps is its thread alone.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle = 0
        """Threads that wait and have not been given anything."""
        self._given: queue.SimpleQueue[Work] = queue.SimpleQueue()

    def begin(self, work: Work) -> None:
        """Run ``work`` on a thread, from now on. Raises RuntimeError when none can be started."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._given.put(work)
                return
        threading.Thread(target=self._run, args=(work,), name="noetl-crew", daemon=True).start()

    def _run(self, work: Work | None) -> None:
        while work is not None:
            work()
            work = self._next()

    def _next(self) -> Work | None:
        """Wait for the next piece of work. None: the thread is not needed."""
        with self._lock:
            self._idle += 1
        while True:
            try:
                return self._given.get(timeout=self._idle_seconds)
            except queue.Empty:
                with self._lock:
                    if self._given.empty():
                        self._idle -= 1
                        return None


CREW = Crew()
"""Of the process: batches follow one another, and some run at the same time."""
