"""Threads of the HTTP server beside its own: one for each request that waits for something else, so that others have theirs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class LentThreads:
    """``dispatcher``: that of waitress, with its ``own`` threads started."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self.own = len(dispatcher.threads)
        self._running = self.own
        self._lent = 0
        self._closed = False
        self._lock = threading.Lock()

    @contextmanager
    def lend(self) -> Iterator[bool]:
        """Let another request have a thread while the caller's waits. False: no more threads can be started, and it should not wait."""
        lent = self._lend()
        try:
            yield lent
        finally:
            if lent:
                self._take_back()

    def close(self) -> None:
        """Start and end no more threads: the dispatcher ends them all."""
        with self._lock:
            self._closed = True

    def _lend(self) -> bool:
        with self._lock:
            wanted = self.own + self._lent + 1
            if wanted > self._running and not self._closed:
                before = frozenset(self._dispatcher.threads)
                try:
                    self._dispatcher.set_thread_count(wanted)
                except RuntimeError:
                    self._dispatcher.threads.intersection_update(
                        before
                    )  # the one that did not start is in it
                    return False
                self._running = wanted
            self._lent += 1
            return True

    def _take_back(self) -> None:
        """Keep some threads for the next that wait: a client that waits again and again starts none."""
        with self._lock:
            self._lent -= 1
            if not self._lent and self._running > 2 * self.own and not self._closed:
                self._running = 2 * self.own
                self._dispatcher.set_thread_count(self._running)
