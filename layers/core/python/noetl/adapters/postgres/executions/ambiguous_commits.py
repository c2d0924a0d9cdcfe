"""Commits whose answer was lost with the connection.

They may have leased work to this process without its knowledge.

If the commit was carried out, its new commands and events are leased to an owner that is alive and never heard of them, and so are
commands of any execution that it gave a slot of a limit. They are set free when the owner next asks for work; a command of the same step
run, or one that got a slot meanwhile, that is on its way already runs again as another attempt.
An answer that cannot be read counts as one that was lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from noetl.adapters.postgres.connection import SILENT, UNKNOWN
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Event, Start
from noetl.ports.executions.answers import CreatedExecution
from noetl.ports.executions.execution_store import Change, ItemBatch

TRANSIT_SECONDS = 5.0
"""How much longer than an earlier statement a later one may wait for a connection and travel."""


class AmbiguousCommit(msgspec.Struct, frozen=True):
    """A commit whose answer was lost.

    ``expected``: the version a main-lane commit was based on (-1: the item lane). ``limited``: it may have granted slots to any
    execution.
    """

    owner: str
    execution_id: int
    run: int
    expected: int
    limited: bool = False


class AmbiguousCommits:
    def __init__(self) -> None:
        self._doubts: dict[AmbiguousCommit, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def about(self, doubts: Callable[[], Sequence[AmbiguousCommit]]) -> Iterator[None]:
        """Around a write.

        ``doubts``: what it may leave in doubt, which is only asked for when something is.
        The same commit succeeding later proves that the lost one was not carried out.
        """
        began = time.monotonic()
        try:
            yield
        except InfrastructureError as error:
            if error.code in (UNKNOWN, SILENT):
                self._add(doubts(), began)
            raise
        if self._doubts:
            self.settle([doubt for doubt in doubts() if doubt.expected >= 0])

    @contextmanager
    def reading(self, doubts: Callable[[], Sequence[AmbiguousCommit]]) -> Iterator[None]:
        """Guard the reading of an answer: what was committed is doubtful when that fails.

        Raises InfrastructureError (code ``outcome_unknown``).
        """
        began = time.monotonic()
        try:
            yield
        except Exception as error:
            self._add(doubts(), began)
            raise InfrastructureError(
                f"the database's answer to a commit cannot be read: {error!r}",
                code=UNKNOWN,
                hint="what it gave out is claimed again; report this as a defect",
            ) from error

    def of(self, owner: str) -> list[AmbiguousCommit]:
        if not self._doubts:
            return []
        with self._lock:
            return sorted(
                (doubt for doubt in self._doubts if doubt.owner == owner),
                key=lambda doubt: (doubt.execution_id, doubt.run),
            )

    def age(self, doubts: Sequence[AmbiguousCommit]) -> float | None:
        """Return how many seconds ago, at most, one of those commits granted slots to others.

        None: none of them may have done so.
        """
        with self._lock:
            began = [self._doubts[doubt] for doubt in doubts if doubt.limited and doubt in self._doubts]
        return time.monotonic() - min(began) + TRANSIT_SECONDS if began else None

    def settle(self, doubts: Sequence[AmbiguousCommit]) -> None:
        with self._lock:
            for doubt in doubts:
                self._doubts.pop(doubt, None)

    def add(self, doubts: Sequence[AmbiguousCommit]) -> None:
        """Note work of this process that it will not do, although it had the answer."""
        self._add(doubts, time.monotonic())

    def _add(self, doubts: Sequence[AmbiguousCommit], began: float) -> None:
        with self._lock:
            for doubt in doubts:
                self._doubts.setdefault(doubt, began)


def of_changes(changes: Sequence[Change], owner: str | None) -> list[AmbiguousCommit]:
    """Return the step runs whose commands a commit issues; run 0 means the events alone."""
    if owner is None:
        return []
    found = []
    for change in changes:
        runs = {0, *(command.run for command in change.issue), *(loop.run for loop in change.loops)}
        runs.update(int(wake.command_id.partition(".")[0]) for wake in change.wakes)
        found += [
            AmbiguousCommit(owner, change.execution_id, run, change.expected, change.limited) for run in runs
        ]
    return found


def of_start(start: Start, created: CreatedExecution, owner: str | None) -> list[AmbiguousCommit]:
    """Return the Start that ``create`` hands to its caller.

    One that begins later belongs to no process.
    """
    return [AmbiguousCommit(owner, start.execution_id, 0, -1)] if owner and created.starts_at is None else []


def of_events(events: Sequence[Event], owner: str | None) -> list[AmbiguousCommit]:
    """Return posted events, which the caller hands to its engine."""
    if not owner:
        return []
    return [
        AmbiguousCommit(owner, execution_id, 0, -1) for execution_id in {one.execution_id for one in events}
    ]


def of_batches(batches: Sequence[ItemBatch], owner: str | None) -> list[AmbiguousCommit]:
    if owner is None:
        return []
    return [
        AmbiguousCommit(owner, batch.event.execution_id, batch.event.run, -1, batch.limited)
        for batch in batches
    ]
