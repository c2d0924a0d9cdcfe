"""Warm children between calls: each kept for the execution it has worked for, ended when idle for long.

A spare child that nobody owns is started ahead of need, so that the first call of an execution seldom waits
for an interpreter to start.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from noetl.domain.errors import InfrastructureError, TaskError
from noetl.kinds.sandbox.child import Child, Owner
from noetl.kinds.sandbox.watch import Watch

IDLE_SECONDS = 60.0
SPARE_SECONDS = 0.25
"""Longer than an execution that is under way pauses between calls; shorter, and children would be churned."""
WAIT_SLICE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _Idle:
    child: Child
    since: float


class ChildPool:
    """At most ``capacity`` processes, the spare one included. Safe to use from many threads."""

    def __init__(
        self, capacity: int, idle_seconds: float = IDLE_SECONDS, spare_seconds: float = SPARE_SECONDS
    ) -> None:
        """A child that nobody calls is ended after ``idle_seconds``.

        In a full pool it gives way to a spare one after ``spare_seconds``.
        """
        self._capacity = max(1, capacity)
        self._idle_seconds = idle_seconds
        self._spare_seconds = spare_seconds
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        """For callers: a child or a place for one is free."""
        self._ordered = threading.Condition(self._lock)
        """For the keeper, which must not wake at every call."""
        self._idle: list[_Idle] = []
        """Longest idle first."""
        self._count = 0
        self._wants_spare = False
        self._keeper: threading.Thread | None = None
        self._closed = False
        self._process_id = os.getpid()

    @contextmanager
    def lease(self, owner: Owner, watch: Watch) -> Iterator[Child]:
        """A child that works for ``owner`` only. It is kept afterwards, or ended when the body raised.

        Waits for a free place. Raises TaskError ``timeout`` (code ``no_free_process``) or ``cancelled``, and
        InfrastructureError when no process can be started.
        """
        child = self._take(owner, watch)
        try:
            yield child
        except BaseException:
            self._end([child])
            raise
        self._give_back(child)

    def close(self) -> None:
        """End all idle children; those at work end when they are given back."""
        with self._lock:
            self._closed = True
            children = [idle.child for idle in self._idle]
            self._idle.clear()
            self._freed.notify_all()
            self._ordered.notify()
        if os.getpid() == self._process_id:
            self._end(children)

    def _take(self, owner: Owner, watch: Watch) -> Child:
        while True:
            ended: list[Child] = []
            with self._lock:
                child = self._pick(owner, ended)
                room = child is None and self._count < self._capacity
                if room:
                    self._count += 1
                elif child is None and not ended:
                    self._freed.wait(WAIT_SLICE_SECONDS)
            self._end(ended)
            if room:
                child = self._start()
            if child is not None:
                if child.owner is None:
                    self._hand_over(child, owner)
                return child
            watch.refuse_cancelled("the code")
            if watch.left <= 0:
                raise TaskError(
                    f"no process for python code became free within {watch.context.timeout:g} s",
                    kind="timeout",
                    code="no_free_process",
                    retryable=True,
                )

    def _hand_over(self, child: Child, owner: Owner) -> None:
        try:
            child.adopt(owner)
        except BaseException:
            self._end([child])
            raise
        self._order_spare()

    def _pick(self, owner: Owner, ended: list[Child]) -> Child | None:
        """Under the lock: own child, else the spare. In a full pool, another owner's goes to ``ended``."""
        for wanted in (owner, None):
            for place in range(len(self._idle) - 1, -1, -1):
                child = self._idle[place].child
                if child.owner != wanted:
                    continue
                del self._idle[place]
                if child.alive:
                    return child
                ended.append(child)
        if self._count >= self._capacity and self._idle and not ended:
            ended.append(self._idle.pop(0).child)
        return None

    def _start(self) -> Child:
        try:
            return Child()
        except OSError as error:
            self._end([], lost=1)
            raise InfrastructureError(f"no process for python code can be started: {error}") from error

    def _give_back(self, child: Child) -> None:
        with self._lock:
            if not self._closed and not child.worn:
                self._idle.append(_Idle(child, time.monotonic()))
                self._freed.notify()
                return
        self._end([child])

    def _end(self, children: list[Child], lost: int = 0) -> None:
        """Outside the lock: end these; ``lost`` more places became free."""
        for child in children:
            child.close()
        if children or lost:
            with self._lock:
                self._count -= len(children) + lost
                self._freed.notify_all()

    def _order_spare(self) -> None:
        with self._lock:
            self._wants_spare = all(idle.child.owner is not None for idle in self._idle)
            if self._keeper is None and not self._closed:
                self._keeper = threading.Thread(target=self._keep, name="noetl-python-pool", daemon=True)
                self._keeper.start()
            self._ordered.notify()

    def _keep(self) -> None:
        """The keeper thread: starts spare children, ends idle ones."""
        while True:
            with self._lock:
                if self._closed:
                    return
                ended = self._expired(self._idle_seconds)
                start = self._wants_spare and self._count < self._capacity
                if start:
                    self._wants_spare = False
                    self._count += 1
                elif self._wants_spare and not ended and self._capacity > 1:
                    ended = self._expired(self._spare_seconds, most=1)
                if not start and not ended:
                    self._ordered.wait(self._until_next_look())
                    continue
            self._end(ended)
            if start:
                self._start_spare()

    def _start_spare(self) -> None:
        try:
            child = self._start()
        except InfrastructureError:
            return  # the next call starts its own, and reports it if that fails too
        self._give_back(child)

    def _expired(self, seconds: float, most: int | None = None) -> list[Child]:
        """Under the lock: takes out children that were idle for that long, the longest idle first."""
        limit = time.monotonic() - seconds
        old = [idle for idle in self._idle if idle.since <= limit][:most]
        self._idle = [idle for idle in self._idle if idle not in old]
        return [idle.child for idle in old]

    def _until_next_look(self) -> float | None:
        """Seconds; a child that is at work now is idle no earlier than a whole period from now."""
        if not self._count:
            return None
        if self._wants_spare and self._capacity > 1:
            return self._spare_seconds
        first = min((idle.since for idle in self._idle), default=time.monotonic())
        return max(0.01, first + self._idle_seconds - time.monotonic())


_shared: ChildPool | None = None
_shared_lock = threading.Lock()


def shared_pool() -> ChildPool:
    """The pool of this process: two children for every processor."""
    global _shared
    pool = _shared
    if pool is not None and pool._process_id == os.getpid():
        return pool
    with _shared_lock:
        if _shared is None or _shared._process_id != os.getpid():
            _shared = ChildPool(2 * (os.cpu_count() or 1))
            atexit.register(_shared.close)
        return _shared
