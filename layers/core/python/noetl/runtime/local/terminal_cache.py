"""The cache of terminal statuses, and the wait for the ends of executions.

A server runs for a long time, so the cache forgets the oldest ends; only the store knows those.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import UNSET

from noetl.domain.errors import InfrastructureError
from noetl.domain.state import TERMINAL
from noetl.domain.workers.lost_owners import Takes
from noetl.ports.executions.answers import ExecutionFilter
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.runtime.local.idle_check import outstanding
from noetl.services.queries.read_execution import is_over

LOOK_SECONDS = 0.5
"""Pause between looks at the store: another process may have moved an execution on."""
LOOK_AT = 1000
"""Most executions that one look asks the store for."""
MOST = 100_000
"""Most ends that a process remembers."""


class Awaited:
    """A wait for the end of one execution.

    ``result``: what it completed with, where this process knows it; else UNSET.
    """

    def __init__(self) -> None:
        self._ended = threading.Event()
        self.result: Any = UNSET

    def __call__(self, seconds: float) -> bool:
        """Wait at most so long. True: there is nothing more to wait for."""
        return self._ended.wait(seconds)

    def end(self, result: Any = UNSET) -> None:
        """End the wait."""
        if not self._ended.is_set():
            self.result = result
            self._ended.set()


class Ends(dict[int, str]):
    """Execution → terminal status, and the waits for such ends. Not thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._awaited: dict[int, list[Awaited]] = {}
        self._released = False
        self._looks: list[set[int]] = []

    def revive(self, execution_id: int) -> None:
        """Note that this execution is live, even if this process remembers or is reading its end."""
        self.pop(execution_id, None)
        for revived in self._looks:
            revived.add(execution_id)

    def look(self) -> set[int]:
        """Begin a look at the store; return the set that gathers what is revived until ``looked``."""
        revived: set[int] = set()
        self._looks.append(revived)
        return revived

    def looked(self, revived: set[int]) -> None:
        """End the look that ``look`` began."""
        self._looks = [one for one in self._looks if one is not revived]

    def note(self, ended: Iterable[tuple[int, str]], results: Mapping[int, Any] | None = None) -> None:
        """Remember these ends, wake those who wait for them, and forget the oldest.

        ``results``: of executions that completed, as far as they are known.
        """
        for execution_id, status in ended:
            self[execution_id] = status
            for one in self._awaited.get(execution_id, ()):
                one.end(results.get(execution_id, UNSET) if results else UNSET)
        while len(self) > MOST:
            del self[next(iter(self))]

    def expect(self, execution_id: int) -> Awaited:
        """Return a wait for the end of this execution. ``forget`` removes it."""
        awaited = Awaited()
        if self._released or execution_id in self:
            awaited.end()
        self._awaited.setdefault(execution_id, []).append(awaited)
        return awaited

    def awaits(self, execution_id: int) -> bool:
        """Return whether a thread waits for this end. It takes no lock."""
        return execution_id in self._awaited

    def forget(self, execution_id: int, awaited: Awaited) -> None:
        """Remove a wait of ``expect``: it is over."""
        left = self._awaited[execution_id]
        left.remove(awaited)
        if not left:
            del self._awaited[execution_id]

    def release(self) -> None:
        """Wake all waits, present and future ones: this process ends."""
        self._released = True
        for waits in self._awaited.values():
            for one in waits:
                one.end()


def forget_redriven(
    execution_id: int, ended: Ends, changed: threading.Condition, store: ExecutionStore
) -> None:
    """Forget an end in the cache if the execution has been redriven since, or is about to be.

    ``changed`` guards ``ended``.
    """
    if execution_id not in ended:
        return
    try:
        info = store.info(execution_id)
        live = info is None or not is_over(store, info)
    except InfrastructureError:
        return
    if live:
        with changed:
            ended.pop(execution_id, None)


@contextmanager
def expecting(execution_id: int, ended: Ends, changed: threading.Condition) -> Iterator[Awaited]:
    """Yield a wait that is over when the execution ends in this process.

    ``changed`` guards ``ended``.
    """
    with changed:
        awaited = ended.expect(execution_id)
    try:
        yield awaited
    finally:
        with changed:
            ended.forget(execution_id, awaited)


class EndWaiter(msgspec.Struct, frozen=True):
    """A wait for the ends of executions.

    ``ended``: the ends that this process knows; ``changed``: guards it. ``quiet``: whether this process has nothing to
    do. ``takes``: what this process takes over from others.
    """

    store: ExecutionStore
    ended: Ends
    changed: threading.Condition
    quiet: Callable[[], bool]
    log: Callable[[str], None]
    takes: Takes = "everything"

    def wait(
        self,
        wanted: Collection[int],
        on_tick: Callable[[], None] | None,
        timeout: float | None,
        tick: float,
    ) -> None:
        """Return when all have ended, or when those left wait for the outside.

        Raises TimeoutError.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        look = time.monotonic() + LOOK_SECONDS
        left: list[int] = []
        while (one := self._open_one(wanted, left)) is not None:
            if on_tick is not None:
                self._show(on_tick)
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"not finished after {timeout:g} s")
            if time.monotonic() > look:
                if self._all_wait(wanted):
                    return
                look = time.monotonic() + LOOK_SECONDS
            # Wait for one end at a time: a step of another execution does not wake this thread.
            with expecting(one, self.ended, self.changed) as ended:
                ended(tick if on_tick is not None else 0.25)

    def _open_one(self, wanted: Collection[int], left: list[int]) -> int | None:
        """Return an execution that has not ended; None when all have.

        ``left``: those that had not ended when it was last filled.
        """
        while left and left[-1] in self.ended:
            left.pop()
        if not left:
            left += [one for one in wanted if one not in self.ended]
        return left[-1] if left else None

    def _show(self, on_tick: Callable[[], None]) -> None:
        """Show progress; skip it while the database, which it reads, does not answer."""
        try:
            on_tick()
        except InfrastructureError as outage:
            self.log(f"progress cannot be shown, because the database does not answer: {outage}")

    def _all_wait(self, wanted: Collection[int]) -> bool:
        """Return whether all open executions wait; False while the database does not answer."""
        try:
            self._look(wanted)
            return self.quiet() and not any(
                outstanding(self.store, one, self.takes) for one in wanted if one not in self.ended
            )
        except InfrastructureError as outage:
            self.log(f"the database does not answer: {outage}")
            return False

    def _look(self, wanted: Collection[int]) -> None:
        """Note the ends that other processes caused."""
        open_ = sorted(set(wanted) - self.ended.keys())
        for first in range(0, len(open_), LOOK_AT):
            some = tuple(open_[first : first + LOOK_AT])
            ended = ExecutionFilter(ids=some, statuses=tuple(sorted(TERMINAL)))
            with self.changed:
                revived = self.ended.look()
            try:
                found = self.store.executions(limit=len(some), wanted=ended)
                with self.changed:
                    # An execution that is redriven meanwhile has commands in this process, which would count as given up.
                    ends = [(one.execution_id, one.status) for one in found]
                    self.ended.note(end for end in ends if end[0] not in revived)
            finally:
                with self.changed:
                    self.ended.looked(revived)
