"""Rows of loop runs in a store."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from noetl.domain.commands import FrozenScope
from noetl.domain.limits import Limit
from noetl.domain.loop_resume import LoopResume, Ranges
from noetl.domain.outcomes.outcomes import Patch


class LoopRow(msgspec.Struct, frozen=True):
    """A loop run as it starts.

    ``window``: most items in flight. ``first``: commands it starts with (one item each): enough to keep the
    workers busy; chunks grow from what they measure. ``items``: the collection inline, or ``items_ref`` its reference.

    ``again``: the earlier run it continues. Then ``picked`` are the items it runs (``total`` of them), out of the collection's ``whole``,
    and ``overlay`` what kept items wrote that is not in the context yet.
    """

    run: int
    round: int
    step: str
    pool: str
    program: str
    total: int
    window: int
    mode: Literal["sequential", "parallel"]
    iterator: str
    fail_fast: bool
    iterator_vars: bool
    scope: FrozenScope
    first: int = 1000
    items: list[Any] | None = None
    items_ref: dict[str, Any] | None = None
    parent: dict[str, Any] | None = None
    again: LoopResume | None = None
    picked: Ranges = ()
    whole: int = 0
    overlay: list[Patch] = []
    priority: int = 0
    limits: tuple[Limit, ...] = ()
    """What each of its commands has to have before it is given out."""


class GateChange(msgspec.Struct, frozen=True):
    """The closing of a loop's gate: nothing more is issued.

    When nothing is in flight any more the store emits its ``LoopDone``.
    """

    run: int
    round: int


class LoopProgress(msgspec.Struct, frozen=True):
    run: int
    round: int
    step: str
    total: int
    issued: int
    done: int
    failed: int
    size: int
    patched: int
    gate: Literal["open", "closing", "closed"]


class ItemWork(msgspec.Struct, frozen=True):
    """Work of the items of a step run.

    ``rows``: rows of history that were read. ``items``: that ended. ``calls``: of tools, which took ``ms`` milliseconds together.
    """

    run: int
    rows: int
    items: int
    calls: int
    ms: float


class ItemRow(msgspec.Struct, frozen=True):
    index: int
    outcome: bytes
    """Encoded Outcome."""


class ItemBand(msgspec.Struct, frozen=True):
    """Items of a loop that ended in one of several equal spans of time.

    ``band``: which of them, from 0. ``first``: the lowest place of an item that ended in it.
    """

    band: int
    done: int
    failed: int
    first: int


class ItemBands(msgspec.Struct, frozen=True):
    """The ends of a loop's items over time, between the first and the last one.

    Spans without an end are left out.
    """

    low: float
    high: float
    bands: list[ItemBand]
