"""Loop runs that continue earlier ones: the run that counts for each item, the items left.

Such a run runs the items it picked; the outcomes of the others stay where they are, in the lanes of earlier runs. So a loop's
outcomes are those of a chain of runs, newest first: an item belongs to the newest one that picked it.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.loop_resume import FAILED, LoopResume, Places, indexes, ranges_of
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.patches.scope_patches import PatchBuffer
from noetl.engine.scopes.slot_view import EarlierLoop
from noetl.ports.executions.execution_store import ExecutionStore, LoopRow
from noetl.services.results.stored_bytes import fetch

if TYPE_CHECKING:
    from noetl.services.orchestrator.engine_deps import EngineDeps

PAGE = 1000
_OUTCOME = codec.decoder(Outcome)

ItemOutcome = tuple[int, Any, bool]
"""An item's index, its outcome, and whether what it wrote is in the context already."""


def whole_outcome(data: bytes) -> Outcome:
    return codec.decode_as(_OUTCOME, data)


def chain(store: ExecutionStore, execution_id: int, run: int, round_: int) -> list[LoopRow]:
    """Return a loop run and those it continues, newest first; empty when there is none.

    Raises TaskError(code="loop_not_available") when an earlier one is gone.
    """
    rows: list[LoopRow] = []
    wanted: tuple[int, int] | None = (run, round_)
    while wanted is not None:
        row = store.loop_run(execution_id, *wanted)
        if row is None and not rows:
            return []
        if row is None:
            raise _gone(*wanted)
        rows.append(row)
        wanted = (row.again.run, row.again.round) if row.again is not None else None
    return rows


def outcomes(
    store: ExecutionStore,
    execution_id: int,
    rows: list[LoopRow],
    applied: bool = False,
    read: Callable[[bytes], Any] = whole_outcome,
) -> Iterator[ItemOutcome]:
    """Yield the outcomes of the items in index order, read in pages.

    ``applied``: what the newest run's items wrote is in the context.
    ``read``: what is made of an outcome."""
    if len(rows) == 1:
        yield from _own(store, execution_id, rows[0], applied, read)
        return
    owner = _owners(rows)
    streams = []
    for number, row in enumerate(rows):
        streams.append(_owned(_own(store, execution_id, row, applied, read), owner, number))
        applied = applied or (row.again is not None and row.again.applied)
    yield from heapq.merge(*streams, key=itemgetter(0))


def _owners(rows: list[LoopRow]) -> array[int]:
    """Return, per index, the number of the newest run that picked it; the oldest picked all."""
    oldest = len(rows) - 1
    owner = array("i", [oldest]) * rows[0].whole
    for number in range(oldest - 1, -1, -1):
        for index in indexes(rows[number].picked):
            owner[index] = number
    return owner


def _owned(outcomes: Iterator[ItemOutcome], owner: array[int], number: int) -> Iterator[ItemOutcome]:
    return (one for one in outcomes if owner[one[0]] == number)


def _own(
    store: ExecutionStore, execution_id: int, row: LoopRow, applied: bool, read: Callable[[bytes], Any]
) -> Iterator[ItemOutcome]:
    places = Places(row.picked)
    start = 0
    while True:
        page = store.loop_items(execution_id, row.run, row.round, start, PAGE)
        for item in page:
            yield places.index(item.index), read(item.outcome), applied
        if len(page) < PAGE:
            return
        start = page[-1].index + 1


def earlier_loop(
    deps: EngineDeps, execution_id: int, again: LoopResume, *, fail_fast: bool, sequential: bool
) -> EarlierLoop:
    """Return what an ended loop run leaves to the run that continues it.

    Which items run again: the one that ``again`` names, or those that failed; and those that never ran, unless an iteration left the
    loop with a ``next``, so that they are not wanted. When a failure breaks the loop (``fail_fast``), failed ones run again in any case.
    Raises TaskError(code="loop_not_available"), or "REFERENCE_NOT_AVAILABLE" when the collection is gone.
    """
    rows = chain(deps.store, execution_id, again.run, again.round)
    if not rows:
        raise _gone(again.run, again.round)
    newest, oldest = rows[0], rows[-1]
    left = _Left(oldest.total, again, fail_fast=fail_fast)
    for outcome in outcomes(deps.store, execution_id, rows, again.applied):
        left.add(*outcome, gather=sequential)
    picked = ranges_of(left.picked())
    if picked and newest.items is None and newest.items_ref is not None:
        fetch(deps.results, newest.items_ref)
    return EarlierLoop(oldest.total, picked, newest.items, newest.items_ref, left.patches.combined())


class _Left:
    """The items of an ended loop that are left to run."""

    def __init__(self, whole: int, again: LoopResume, *, fail_fast: bool) -> None:
        self.again = again
        self.seen = bytearray(whole)
        self.failed: list[int] = []
        self.left = False
        self.patches = PatchBuffer()
        self.all_failed = fail_fast or again.item == FAILED

    def add(self, index: int, outcome: Outcome, applied: bool, *, gather: bool) -> None:
        self.seen[index] = True
        if index == self.again.item:
            return
        if outcome.status == "error" and self.all_failed:
            self.failed.append(index)
            return
        self.left = self.left or outcome.route is not None
        if gather and not applied:
            self.patches.add(outcome.patches)

    def picked(self) -> list[int]:
        wanted = set(self.failed)
        if self.again.item != FAILED:
            wanted.add(self.again.item)
        if not self.left:
            wanted.update(index for index, seen in enumerate(self.seen) if not seen)
        return sorted(wanted)


def _gone(run: int, round_: int) -> TaskError:
    return TaskError(
        f"what the items of loop run {run}.{round_} came to is not kept any more",
        kind="storage_access",
        code="loop_not_available",
        hint="redrive the execution from the step: its loop then runs again from the start",
    )
