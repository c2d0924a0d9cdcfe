"""Printed output of tasks: lines of text, stored beside history and never part of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from noetl.domain.text.timestamps import TimeText


def line_time(at: float) -> str:
    """Epoch seconds as RFC 3339 with milliseconds."""
    return f"{datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


class TaskLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line, secrets taken out.

    ``time``: when it was printed (RFC 3339). ``index``: of a loop's item. ``attempt``: of the task.
    """

    time: TimeText
    step: str
    task: str
    line: str
    run: int = 0
    attempt: int = 1
    index: int | None = None


class LinePage(msgspec.Struct, frozen=True):
    """Lines in the order they were kept, or in the opposite one.

    A cursor is a place between two lines, for both orders. ``next``: the one where the next page begins. ``more``: there are some already.
    ``places``: for each line the cursor with which the next page would begin behind it.
    """

    lines: Sequence[TaskLine]
    next: str
    more: bool = False
    places: Sequence[str] = ()
