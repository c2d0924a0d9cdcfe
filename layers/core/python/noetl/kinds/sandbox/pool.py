"""Children between calls, each kept for its execution, or for those of a program.

A child ends with its execution, or when no call uses it for long; one that executions share also after many calls. One whose call left
processes running is not kept; one whose threads fill its folder is ended.

The caller bounds how many are at work: a worker has ``NOETL_PYTHON_WORKERS`` threads for code, and begins with no more executions than
may keep a child (``services.worker.ready_commands``). So no call waits for a place here.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

import msgspec

from noetl.domain.errors import InfrastructureError
from noetl.domain.workers.process_need import Need
from noetl.kinds.sandbox.child import Child, Owner
from noetl.kinds.sandbox.disk import LOOK_SECONDS
from noetl.kinds.sandbox.ended import when_ended
from noetl.kinds.sandbox.needed import kept_children, need_of
from noetl.system_calls import deferred_work

IDLE_SECONDS = 60.0


class _Check:
    """A look at what a call left in a child, once: by its thread, or one that takes it first."""

    def __init__(self, child: Child) -> None:
        self._child: Child | None = child
        self._lock = threading.Lock()
        self._fit = False

    def __call__(self) -> bool:
        """Return whether the child is fit for another call."""
        with self._lock:
            child, self._child = self._child, None
            if child is not None:
                with suppress(Exception):  # one that cannot be looked at is not fit
                    self._fit = not child.left_processes
            return self._fit


class _Idle(msgspec.Struct, frozen=True):
    child: Child
    since: float
    check: _Check


class ChildPool:
    """Safe to use from many threads. At most ``keep`` children are idle."""

    def __init__(self, keep: int, idle_seconds: float = IDLE_SECONDS) -> None:
        """Make a pool that keeps at most ``keep`` idle children, each for ``idle_seconds``.

        When there are too many, it ends the child whose execution needs it least, and of those the one that has been idle longest.
        """
        self._keep = max(1, keep)
        self._idle_seconds = idle_seconds
        self._changed = threading.Condition()
        self._idle: list[_Idle] = []
        """Longest idle first."""
        self._unwanted: list[Child] = []
        self._keeper: threading.Thread | None = None
        self._keeper_rests = False
        """The keeper waits until there is a child, and not for a moment that it knows."""
        self._at_work = 0
        self._closed = False
        self._process_id = os.getpid()

    @contextmanager
    def lease(self, owner: Owner) -> Iterator[Child]:
        """Lease a child for ``owner`` only; keep it afterwards, or end it when the body raised.

        Raises InfrastructureError when no process can be started.
        """
        with self._work():
            child = self._take(owner) or _start(owner)
            try:
                yield child
            except BaseException:
                child.close()
                raise
            self._give_back(child)

    def prepare(self, owner: Owner) -> None:
        """Start the child of ``owner`` if there is none: a call is about to follow.

        Raises InfrastructureError when no process can be started.
        """
        with self._work():
            child = self._take(owner) or _start(owner)
            if not self._keep_idle(child, _Check(child)):
                child.close()

    def has_idle(self, owner: Owner) -> bool:
        """Return whether a child of ``owner`` is idle."""
        with self._changed:
            return any(idle.child.owner == owner for idle in self._idle)

    @contextmanager
    def _work(self) -> Iterator[None]:
        with self._changed:
            self._at_work += 1
        try:
            yield
        finally:
            with self._changed:
                self._at_work -= 1

    def close(self) -> None:
        """End all idle children; those at work end when they are given back."""
        with self._changed:
            self._closed = True
            children = [*(idle.child for idle in self._idle), *self._unwanted]
            self._idle.clear()
            self._unwanted.clear()
            self._changed.notify()
        if os.getpid() == self._process_id:
            for child in children:
                child.close()

    def end(self, execution_ids: Collection[int]) -> None:
        """These executions have ended: end their idle children, and wait for none of them."""
        with self._changed:
            kept = [idle for idle in self._idle if idle.child.owner.execution_id not in execution_ids]
            if len(kept) < len(self._idle):
                self._unwanted += [idle.child for idle in self._idle if idle not in kept]
                self._idle = kept
                self._changed.notify()

    def _take(self, owner: Owner) -> Child | None:
        """Take the child of ``owner`` that was used last, if one is fit for a call."""
        while (found := self._taken(owner)) is not None:
            child = found.child
            if child.alive and child.sees_places and found.check():
                return child
            with self._changed:
                self._unwanted.append(child)
        return None

    def _taken(self, owner: Owner) -> _Idle | None:
        with self._changed:
            for place in range(len(self._idle) - 1, -1, -1):
                if self._idle[place].child.owner == owner:
                    return self._idle.pop(place)
        return None

    def _give_back(self, child: Child) -> None:
        check = _Check(child)
        fit = not (child.worn or child.spent)  # now: to look at a full folder may take seconds
        if fit and not deferred_work.is_deferring():
            fit = check()
        if not (fit and self._keep_idle(child, check)):
            child.close()
        elif deferred_work.is_deferring():
            deferred_work.defer(lambda: self._look(child, check))

    def _look(self, child: Child, check: _Check) -> None:
        """Let the keeper end an idle child that is not fit."""
        if check():
            return
        with self._changed:
            kept = [idle for idle in self._idle if idle.child is not child]
            if len(kept) < len(self._idle):
                self._idle = kept
                self._unwanted.append(child)
                self._changed.notify()

    def _keep_idle(self, child: Child, check: _Check) -> bool:
        """Keep a child for the next call of its owner. False: the pool is closed."""
        with self._changed:
            if not self._closed:
                self._idle.append(_Idle(child, time.monotonic(), check))
                if self._keeper is None:
                    self._keeper = threading.Thread(
                        target=self._end_idle, name="noetl-python-pool", daemon=True
                    )
                    self._keeper.start()
                if len(self._idle) > self._keep:
                    self._unwanted.append(self._idle.pop(self._least_needed()).child)
                if self._unwanted or self._keeper_rests:
                    self._changed.notify()
            return not self._closed

    def _least_needed(self) -> int:
        """Return the place of the idle child that is needed least.

        Nothing of its execution is ready or running if there is such a child; of several it is the one that has been idle longest.
        """
        needs = [_need_of(one.child.owner) for one in self._idle]
        return needs.index(min(needs))

    def _end_idle(self) -> None:
        """End idle children in the keeper thread.

        The end of a process takes time that no call should wait for.
        """
        looked = time.monotonic()
        while True:
            with self._changed:
                if not self._unwanted and not self._closed:
                    pause = self._until_next_look()
                    self._keeper_rests = pause is None
                    self._changed.wait(pause)
                    self._keeper_rests = False
                if self._closed:
                    return
                limit = time.monotonic() - self._idle_seconds
                while self._idle and self._idle[0].since <= limit:
                    self._unwanted.append(self._idle.pop(0).child)
                children, self._unwanted = self._unwanted, []
                idle = [one.child for one in self._idle]
            for child in children:
                child.let_go()  # all of them end at the same time
            for child in children:
                child.close()
            if time.monotonic() - looked >= LOOK_SECONDS / 2:  # and not at each end of an execution
                self._end_overfull(idle)
                looked = time.monotonic()

    def _end_overfull(self, children: list[Child]) -> None:
        """End children whose threads continued to write to their folder.

        A child that was leased meanwhile is checked by its call.
        """
        full = [child for child in children if not child.fits_disk]
        if not full:
            return
        with self._changed:
            ended = [one.child for one in self._idle if one.child in full]
            self._idle = [one for one in self._idle if one.child not in full]
        for child in ended:
            child.close()

    def _until_next_look(self) -> float | None:
        """Return the seconds until the next look; None while there is no child.

        A child at work will be idle soon: it need not wake the keeper each time.
        """
        if not self._idle:
            return min(LOOK_SECONDS, self._idle_seconds) if self._at_work else None
        return min(LOOK_SECONDS, max(0.01, self._idle[0].since + self._idle_seconds - time.monotonic()))


def _need_of(owner: Owner) -> Need:
    """Return how much a child is needed.

    A program needs its children as much as an execution that is at work in another pool.
    """
    return Need.ELSEWHERE if owner.program else need_of(owner.execution_id)


def _start(owner: Owner) -> Child:
    try:
        return Child(owner)
    except OSError as error:
        raise InfrastructureError(f"no process for python code can be started: {error}") from error


_shared: ChildPool | None = None
_shared_lock = threading.Lock()


def shared_pool() -> ChildPool:
    """Return the pool of this process."""
    global _shared
    pool = _shared
    if pool is not None and pool._process_id == os.getpid():
        return pool
    with _shared_lock:
        if _shared is None or _shared._process_id != os.getpid():
            _shared = ChildPool(kept_children())
            atexit.register(_shared.close)
            when_ended(_shared.end)
        return _shared
