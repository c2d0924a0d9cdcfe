"""Printed output of tasks: lines of text, stored beside history and never part of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from noetl.domain.text.timestamps import TimeText

Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error", "critical")
"""From the least to the gravest."""
_WORDS: Mapping[str, Level] = {
    "trace": "debug",
    "debug": "debug",
    "info": "info",
    "notice": "info",
    "warn": "warning",
    "warning": "warning",
    "err": "error",
    "error": "error",
    "critical": "critical",
    "fatal": "critical",
}
_BEGINNING = 200
"""Characters in which a level is looked for."""
_NAMES = "|".join(sorted(_WORDS, key=len, reverse=True))
_LEVEL = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?[ |-]{1,3})?"
    rf"(?:(?P<upper>{_NAMES.upper()})(?![\w-])|(?i:\[ ?(?P<framed>{_NAMES}) ?\]|level=\"?(?P<named>{_NAMES})\b|(?P<colon>{_NAMES}):))"
)


def level_of(line: str) -> Level | None:
    """Return the level with which a line begins, after a moment or alone.

    It is a word in capitals (``WARNING:root:…``, which ``logging`` of Python prints), one before a colon, in brackets, or after
    ``level=``.
    """
    found = _LEVEL.match(line[:_BEGINNING])
    word = next(filter(None, found.groups()), "") if found is not None else ""
    return _WORDS.get(word.lower())


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
    level: Level | None = None
    """With which its text begins. It is not stored: readers find it in the text."""


def shown_line(line: TaskLine) -> TaskLine:
    """Return a stored line as readers get it: with its level."""
    level = level_of(line.line)
    return line if level is None else msgspec.structs.replace(line, level=level)


class LinePage(msgspec.Struct, frozen=True):
    """Lines in the order they were kept, or in the opposite one.

    A cursor is a place between two lines, for both orders. ``next``: the one where the next page begins. ``more``: there are some already.
    ``places``: for each line the cursor with which the next page would begin behind it.
    """

    lines: Sequence[TaskLine]
    next: str
    more: bool = False
    places: Sequence[str] = ()
