"""Cache of snapshots that this process has committed, so that it need not read them again.

An entry is a Snapshot at one version, complete in its slots, so it never goes stale: if another process changed the execution, the commit
over it conflicts, and the shell reads. Entries are taken out while they are worked on and put back only after a commit.

A database that was restored has another history under the same numbers of versions. So an entry is good for a time that no restore is done in.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from noetl.caching.lru_cache import LruCache
from noetl.domain.commands import Command
from noetl.ports.executions.execution_store import Change, Fence, Snapshot
from noetl.services.support.store_time import StoreTime

COUNT = 1024
SIZE = 256 * 1024
"""Bytes of history that an execution may have written before it is read again each time (bounds what an entry can hold)."""


class Recent:
    """A thread-safe cache of the snapshots of recent executions.

    ``clock``: seconds that are added to the store's last reading of the time; None: this machine's clock. ``count``: most entries. ``age``:
    seconds after which the store is read in any case, since it returns more than snapshots. ``whole``: up to which step run an unknown
    execution is read whole, so that it is known from then on; 0: only executions that begin in this process are known. ``kept``: seconds
    for which an entry is good. ``wall``: seconds that also count while the process is frozen.
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        count: int = COUNT,
        age: float = float("inf"),
        whole: int = 0,
        kept: float = float("inf"),
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._age, self._whole = age, whole
        self._kept, self._wall = kept, wall
        self._large: LruCache[int, None] = LruCache(count)
        """Executions that were too large to keep."""
        self._time = StoreTime() if clock is None else StoreTime(clock, clock)
        self._entries: LruCache[int, tuple[Snapshot, int, float]] = LruCache(count)

    def take(self, execution_id: int) -> tuple[Snapshot, int] | None:
        """Remove and return the entry, with the bytes of history that it has written so far."""
        found = self._entries.pop(execution_id)
        if found is None:
            return None
        snapshot, size, since = found
        return (snapshot, size) if abs(self._wall() - since) <= self._kept else None

    def put(self, snapshot: Snapshot, size: int) -> None:
        """Remember an execution right after its commit."""
        if size > SIZE:
            self._large.put(snapshot.execution_id, None)
        else:
            self._entries.put(snapshot.execution_id, (snapshot, size, self._wall()))

    def reads_whole(self, execution_id: int, run: int) -> bool:
        """Return whether to read an execution whole at this step run.

        Such an execution is probably small, and is probably needed again.
        """
        return run <= self._whole and execution_id not in self._large

    def observe(self, now: float) -> None:
        """Note the store's time."""
        self._time.observe(now)

    def now(self) -> float | None:
        """Return the store's time; None when it has to be asked."""
        return self._time.now(self._age)


def after_commit(
    change: Change, slots: dict[tuple[str, str], object], fences: dict[str, Fence], given: list[Command]
) -> Snapshot:
    """Return the snapshot that reading the execution would return now.

    ``slots`` and ``fences``: as they were decided over; ``given``: its commands that
    the commit gave out. Runs registered for undoing are not kept: there may be many, and they are wanted only when it fails."""
    closed = {done for done, _, _ in change.close}
    open_commands = {name: fence for name, fence in fences.items() if name not in closed}
    for command in given:
        if command.loop is None:
            open_commands[command.command_id] = Fence(command.attempt, command.turn)
    return Snapshot(
        change.execution_id,
        change.expected + 1,
        change.program,
        change.status,
        change.state,
        {key: value for key, value in slots.items() if key[0] != "undo"},
        open_commands,
        frozenset(),
    )
