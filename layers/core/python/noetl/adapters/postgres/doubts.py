"""What may have been given to this process without its knowing: the answer to a commit was lost with the connection.

If the commit was carried out, its new commands and events are leased to an owner that is alive and never heard of them. They are set
free when the owner next asks for work; a command of the same step run that is on its way already runs again as another attempt.
An answer that cannot be read counts as one that was lost.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from noetl.adapters.postgres.connection import SILENT, UNKNOWN
from noetl.domain.errors import InfrastructureError
from noetl.ports.execution_store import Change, ItemBatch


@dataclass(frozen=True, slots=True)
class Doubt:
    """``expected``: the version a main-lane commit was based on (-1: the item lane)."""

    owner: str
    execution_id: int
    run: int
    expected: int


class Doubts:
    def __init__(self) -> None:
        self._doubts: set[Doubt] = set()
        self._lock = threading.Lock()

    @contextmanager
    def about(self, doubts: Sequence[Doubt]) -> Iterator[None]:
        """Around a write. The same commit succeeding later proves that the lost one was not carried out."""
        try:
            yield
        except InfrastructureError as error:
            if error.code in (UNKNOWN, SILENT):
                with self._lock:
                    self._doubts.update(doubts)
            raise
        if self._doubts:
            with self._lock:
                self._doubts.difference_update(doubt for doubt in doubts if doubt.expected >= 0)

    @contextmanager
    def reading(self, doubts: Sequence[Doubt]) -> Iterator[None]:
        """Guard the reading of an answer: what was committed is doubtful when that fails.

        Raises InfrastructureError (code ``outcome_unknown``).
        """
        try:
            yield
        except Exception as error:
            with self._lock:
                self._doubts.update(doubts)
            raise InfrastructureError(
                f"the database's answer to a commit cannot be read: {error!r}",
                code=UNKNOWN,
                hint="what it gave out is claimed again; report this as a defect",
            ) from error

    def of(self, owner: str) -> list[Doubt]:
        if not self._doubts:
            return []
        with self._lock:
            return sorted(
                (doubt for doubt in self._doubts if doubt.owner == owner),
                key=lambda doubt: (doubt.execution_id, doubt.run),
            )

    def settle(self, doubts: Sequence[Doubt]) -> None:
        with self._lock:
            self._doubts.difference_update(doubts)


def of_changes(changes: Sequence[Change], owner: str | None) -> list[Doubt]:
    """Step runs whose commands a commit gives out; run 0 stands for the events alone."""
    if owner is None:
        return []
    found = []
    for change in changes:
        runs = {0, *(command.run for command in change.issue), *(loop.run for loop in change.loops)}
        runs.update(int(wake.command_id.partition(".")[0]) for wake in change.wakes)
        found += [Doubt(owner, change.execution_id, run, change.expected) for run in runs]
    return found


def of_batches(batches: Sequence[ItemBatch], owner: str | None) -> list[Doubt]:
    if owner is None:
        return []
    return [Doubt(owner, batch.event.execution_id, batch.event.run, -1) for batch in batches]
