"""A loop over time: how many of its items ended in each of a few spans."""

from __future__ import annotations

import msgspec

from noetl.domain.loop_resume import Places
from noetl.domain.text.timestamps import Timestamp
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.services.history.history_pages import FIRST_ROUND
from noetl.services.history.loop_items import find_loop

MOST = 200
"""Spans of one answer."""


class LoopBand(msgspec.Struct, frozen=True):
    """Items that ended from ``at`` on, within the span of the answer.

    ``running``: items under way, which only the last band of a loop that runs has. ``first``: the lowest index of an item that ended
    here; ``after``: the cursor with which ``/items`` begins there.
    """

    at: Timestamp
    done: int
    failed: int
    running: int
    first: int
    after: str | None


class LoopBands(msgspec.Struct, frozen=True):
    """A loop in bands of equal length (``span_ms``), from the first end to the last.

    Bands without an end are left out. ``running``: items that were begun and have not ended, those that wait between two turns included.
    """

    execution_id: str
    run: int
    total: int
    done: int
    failed: int
    running: int
    span_ms: float
    bands: list[LoopBand]


def loop_bands(store: ExecutionStore, execution_id: int, run: int, bands: int) -> LoopBands:
    """Count the items of a loop run by the time of their end.

    The store adds them up in one statement. Raises NotFoundError(code="loop_not_found").
    """
    loop = find_loop(store, execution_id, run)
    found = store.item_bands(execution_id, run, bands)
    counts = [one for one in store.loop_progress(execution_id, [run]) if one.round == FIRST_ROUND]
    issued, done, failed = (counts[0].issued, counts[0].done, counts[0].failed) if counts else (0, 0, 0)
    running = max(0, issued - done - failed) if counts and counts[0].gate != "closed" else 0
    if found is None:
        return LoopBands(str(execution_id), run, loop.total, done, failed, running, 0.0, [])
    length = (found.high - found.low) / bands
    places = Places(loop.picked)
    last = found.bands[-1].band
    shown = [
        LoopBand(
            Timestamp(found.low + one.band * length),
            one.done,
            one.failed,
            running if one.band == last else 0,
            places.index(one.first),
            str(one.first - 1) if one.first else None,
        )
        for one in found.bands
    ]
    return LoopBands(
        str(execution_id), run, loop.total, done, failed, running, round(length * 1000, 3), shown
    )
