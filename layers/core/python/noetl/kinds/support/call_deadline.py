"""Alarms that end blocking calls which have no time-out of their own.

Sockets and database libraries bound each read, not the whole call. An alarm bounds the call: when its time
comes, one thread of the process calls ``stop``, which makes the blocked call fail (shuts the socket down,
interrupts the query). Setting and clearing an alarm costs a lock, not a thread.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

_log = logging.getLogger(__name__)


class CallDeadline:
    """``with Alarm(deadline, stop) as alarm: …``; ``alarm.rang``: whether ``stop`` was called.

    ``deadline`` is on ``time.monotonic()``. ``stop`` runs on another thread, at most once, never after the
    block was left, and must not block for long.
    """

    def __init__(self, deadline: float, stop: Callable[[], None]) -> None:
        self.deadline = deadline
        self.rang = False
        self._stop = stop
        self._open = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._open = True
        _clock.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._open = False
            # The clock keeps an alarm until its time; what it would have stopped must not live that long.
            self._stop = _do_nothing
        _clock.discard(self)

    def ring(self) -> None:
        """Call ``stop`` if the block is still running."""
        with self._lock:
            if not self._open:
                return
            self.rang = True
            try:
                self._stop()
            except Exception:
                # The clock serves every call of the process: one that cannot be stopped must not end it.
                _log.exception("an alarm could not stop its call")


def _do_nothing() -> None:
    """Do nothing: the call of a cleared alarm."""


class _Clock:
    """The thread that rings alarms; started by the first one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, CallDeadline]] = []
        self._cleared: set[CallDeadline] = set()
        self._serial = itertools.count()
        self._thread: threading.Thread | None = None

    def add(self, alarm: CallDeadline) -> None:
        with self._changed:
            heapq.heappush(self._due, (alarm.deadline, next(self._serial), alarm))
            # After a fork the thread object says it is alive only in the parent.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="noetl-alarms", daemon=True)
                self._thread.start()
            if self._due[0][2] is alarm:
                self._changed.notify()

    def discard(self, alarm: CallDeadline) -> None:
        """Forget an alarm; the heap is swept once it holds mostly cleared ones."""
        with self._changed:
            self._cleared.add(alarm)
            if len(self._cleared) > 64 and len(self._cleared) * 2 > len(self._due):
                self._due = [entry for entry in self._due if entry[2] not in self._cleared]
                heapq.heapify(self._due)
                self._cleared.clear()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due:
                    self._changed.wait()
                deadline, _, alarm = self._due[0]
                left = deadline - time.monotonic()
                if left > 0:
                    self._changed.wait(min(left, threading.TIMEOUT_MAX))
                    continue
                heapq.heappop(self._due)
                if alarm in self._cleared:
                    self._cleared.discard(alarm)
                    continue
            alarm.ring()


_clock = _Clock()
