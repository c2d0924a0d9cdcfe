"""Items of one loop by pages: how each ended, in the order of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

import msgspec

from noetl.domain import codec
from noetl.domain.errors import NotFoundError
from noetl.domain.loop_resume import Places
from noetl.domain.outcomes.work import work_of
from noetl.domain.text.excerpt import excerpt
from noetl.domain.text.timestamps import Timestamp
from noetl.domain.unreadable import Unreadable, attempt
from noetl.ports.executions.execution_store import ExecutionStore, LoopRow, StoredEvent
from noetl.services.history.failed_items import FailedItem, failed_item
from noetl.services.history.history_pages import FIRST_ROUND, is_suspended, turn_order

PAGE = 500
PREVIEW = 300
"""Characters of a result's JSON that a page shows."""

ItemStatus = Literal["done", "failed", "skipped", "waiting"]
_STATUSES: Mapping[str, ItemStatus] = {"error": "failed", "skipped": "skipped", "suspended": "waiting"}


class LoopItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One item of a loop.

    ``index``: its place in the whole loop. ``status`` is ``waiting`` between two turns: for a retry, a sub-playbook, a callback or a time.
    ``at``: when it ended, or when its last turn did. ``attempts``: calls made. ``tool_ms``: how long the calls of its last
    turn took together, in milliseconds. ``preview``: the beginning of its result as JSON. ``unreadable``: why its row cannot be read.
    """

    index: int
    status: ItemStatus
    at: Timestamp
    attempts: int = 1
    tool_ms: float = 0.0
    preview: str = ""
    error: FailedItem | None = None
    unreadable: str = ""


class LoopItems(msgspec.Struct, frozen=True):
    """A page of items.

    ``next``: the place to pass as ``after`` for the page behind it; None after the last.
    """

    items: list[LoopItem]
    next: int | None


def find_loop(store: ExecutionStore, execution_id: int, run: int) -> LoopRow:
    """Return the loop of a step run. Raises NotFoundError(code="loop_not_found")."""
    loop = store.loop_run(execution_id, run, FIRST_ROUND)
    if loop is None:
        raise NotFoundError(
            f"step run {run} of execution {execution_id} is no loop",
            code="loop_not_found",
            hint=f"`noetl status {execution_id} --json` lists the runs; those of loops have `loop`",
        )
    return loop


def loop_items(
    store: ExecutionStore, execution_id: int, run: int, *, after: int = -1, limit: int, failed: bool = False
) -> LoopItems:
    """Return a page of the items of a loop run.

    ``after``: the place behind which it begins. ``failed``: only items that failed.
    A run that redrives a loop in part has the items that it picked. An item that has not left a turn yet is not there. The work is that of
    one page, regardless of the loop's size. Raises NotFoundError(code="loop_not_found").
    """
    loop = find_loop(store, execution_id, run)
    if failed:
        rows = store.failed_items(execution_id, run, limit + 1, after=after)
    else:
        rows = store.item_events(execution_id, run, after=after, limit=limit + 1)
    turns = [list(group) for _, group in groupby(rows, key=attrgetter("seq"))]
    places = Places(loop.picked)
    shown = turns[:limit]
    more = len(rows) > limit
    return LoopItems([_item(group, places) for group in shown], shown[-1][0].seq if more else None)


def _item(rows: Sequence[StoredEvent], places: Places) -> LoopItem:
    last = max(rows, key=turn_order)
    index = places.index(last.seq)
    outcome = attempt(lambda: _outcome(last), last.event_id)
    if isinstance(outcome, Unreadable):
        return LoopItem(
            index, "waiting" if is_suspended(last) else "done", Timestamp(last.at), unreadable=outcome.why
        )
    status = _STATUSES.get(str(outcome.get("status")), "done")
    meta = outcome.get("meta") or {}
    attempts = meta.get("attempts", 1) if isinstance(meta, Mapping) else 1
    return LoopItem(
        index,
        status,
        Timestamp(last.at),
        attempts if isinstance(attempts, int) else 1,
        round(work_of(outcome, final=not is_suspended(last))[1], 3),
        _preview(outcome.get("result")) if status == "done" else "",
        failed_item(index, outcome) if status == "failed" else None,
    )


def _outcome(row: StoredEvent) -> dict[str, Any]:
    found = codec.decode(row.facts)
    if not isinstance(found, dict):
        raise ValueError("it is not an outcome")
    return found


def _preview(result: Any) -> str:
    return excerpt(codec.encode(result).decode(), PREVIEW) if result is not None else ""


def every_loop_item(
    store: ExecutionStore, execution_id: int, run: int, *, failed: bool = False
) -> Iterator[LoopItem]:
    """Yield all items of a loop run, read by pages. Raises as ``loop_items`` does."""
    after: int | None = -1
    while after is not None:
        page = loop_items(store, execution_id, run, after=after, limit=PAGE, failed=failed)
        yield from page.items
        after = page.next
