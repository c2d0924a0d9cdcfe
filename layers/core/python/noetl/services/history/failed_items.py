"""Failed items of loops: the first ones, and how often each error occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.loop_resume import Places
from noetl.domain.text.excerpt import excerpt
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.services.history.history_pages import FIRST_ROUND
from noetl.services.history.progress import StepRun

NAMED = 10
"""Failed items of one loop that are named."""
COUNTED = 1000
"""Failed items of one loop whose errors are counted."""
LOOPS = 20
"""Loops of one execution whose failed items are read: the latest ones."""
_MESSAGE = 300


class FailedItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """``index``: its place in the loop. ``message`` is cut."""

    index: int
    message: str
    code: str = ""
    kind: str = ""
    position: str = ""


class ErrorCount(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many items failed with this code. ``message``: of the first of them."""

    count: int
    code: str
    message: str


class FailedItems(msgspec.Struct, frozen=True, omit_defaults=True):
    """The failed items of one loop.

    ``total``: how many failed. ``first``: the first of them. ``errors``: by code, the most frequent first, among the first ``counted``.
    """

    total: int
    counted: int
    first: list[FailedItem]
    errors: list[ErrorCount]


def failed_items(store: ExecutionStore, execution_id: int, runs: Sequence[StepRun]) -> dict[int, FailedItems]:
    """Return the failed items by run, of the latest loops that no redrive replaced.

    The work is bounded, regardless of how many items there are.
    """
    loops = [run for run in runs if run.loop is not None and run.loop.failed and not run.replaced][-LOOPS:]
    return {run.run: _of(store, execution_id, run) for run in loops}


def _of(store: ExecutionStore, execution_id: int, run: StepRun) -> FailedItems:
    rows = store.failed_items(execution_id, run.run, COUNTED)
    started = store.loop_run(execution_id, run.run, FIRST_ROUND) if rows else None
    places = Places(started.picked if started is not None else ())
    found = [failed_item(places.index(row.seq), codec.decode(row.facts)) for row in rows]
    codes = Counter(item.code for item in found)
    messages = {item.code: item.message for item in reversed(found)}
    errors = [ErrorCount(count, code, messages[code]) for code, count in codes.most_common()]
    total = run.loop.failed if run.loop is not None else len(found)
    return FailedItems(max(total, len(found)), len(found), found[:NAMED], errors[:NAMED])


def failed_item(index: int, outcome: Mapping[str, Any]) -> FailedItem:
    """Describe a failed item by its outcome."""
    error: Any = outcome.get("error") or {}
    message = " ".join(str(error.get("message", "failed")).split())
    return FailedItem(
        index,
        excerpt(message, _MESSAGE),
        str(error.get("code") or error.get("kind") or "error"),
        str(error.get("kind") or ""),
        str(error.get("position") or ""),
    )
