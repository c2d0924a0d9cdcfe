"""Reader of what tasks have printed: all lines, or those that a filter wants.

Lines are filtered by reading them, a bounded number at a time: an index over them would be a write for each line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.gate import check_text
from noetl.domain.sizes.table import LOG_SEARCH
from noetl.domain.task_logs import LEVELS, Level, LinePage, TaskLine, level_of, shown_line
from noetl.ports.task_logs import PAGE_BYTES, TaskLogs

SCANNED = 100_000
"""About how many lines one look of a filter reads at most."""
SECONDS = 1.0
"""How long one look of a filter reads, at most."""
_PAGE = 10_000
"""Lines that a filter reads at once; they are bounded in bytes, too."""


class LineFilter(msgspec.Struct, frozen=True):
    """The lines that a reader wants; None is any.

    ``search``: the line contains it; case does not count. ``index``: of a loop's item. ``attempt``: of the task.
    ``level``: its text begins with this level or a graver one.
    """

    search: str = ""
    step: str | None = None
    run: int | None = None
    index: int | None = None
    attempt: int | None = None
    level: Level | None = None

    def __bool__(self) -> bool:
        return self != EVERY_LINE

    def fits(self, line: TaskLine) -> bool:
        """Check whether a line is wanted."""
        return (
            (self.step is None or line.step == self.step)
            and (self.run is None or line.run == self.run)
            and (self.index is None or line.index == self.index)
            and (self.attempt is None or line.attempt == self.attempt)
            and (not self.search or self.search in line.line.casefold())
            and (self.level is None or _reaches(level_of(line.line), self.level))
        )


def _reaches(level: Level | None, least: Level) -> bool:
    return level is not None and LEVELS.index(level) >= LEVELS.index(least)


EVERY_LINE = LineFilter()


def make_line_filter(
    search: str = "",
    step: str | None = None,
    run: int | None = None,
    index: int | None = None,
    attempt: int | None = None,
    level: str | None = None,
) -> LineFilter:
    """Make a filter.

    A step that has printed nothing is no mistake. Raises InvalidInputError(code="size_limit") for a long ``search``, and
    InvalidInputError(code="invalid_level") for a level that is none.
    """
    check_text(LOG_SEARCH, search, "the text to search for")
    return LineFilter(search.casefold(), step, run, index, attempt, None if level is None else _level(level))


def _level(text: str) -> Level:
    for level in LEVELS:
        if text == level:
            return level
    raise InvalidInputError(
        f"{text[:40]!r} is not a level", code="invalid_level", hint=f"one of {', '.join(LEVELS)}"
    )


class FoundLines(msgspec.Struct, frozen=True):
    """Lines of one look, and how far it has looked.

    ``next``: the cursor behind the last line that was looked at. ``more``: lines are kept behind it. ``end``: of the newest lines, the cursor
    from which the order ``oldest`` continues with what is printed later.
    """

    lines: Sequence[TaskLine]
    next: str
    more: bool
    scanned: int
    scanned_until: str | None
    end: str | None = None


class LineReader:
    """A reader of one execution's lines.

    ``everything``: nothing is added any more, so also the youngest.
    """

    def __init__(
        self,
        logs: TaskLogs,
        execution_id: int,
        wanted: LineFilter = EVERY_LINE,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logs, self._execution_id, self._wanted, self._clock = logs, execution_id, wanted, clock

    def oldest(self, after: str, limit: int, *, everything: bool) -> FoundLines:
        """Look from the beginning, or from a cursor on.

        Raises InvalidInputError(code="invalid_cursor").
        """
        return self._look(
            lambda place, most: self._logs.read(self._execution_id, place, most, everything=everything),
            after,
            limit,
        )

    def newest(self, before: str | None, limit: int, *, everything: bool) -> FoundLines:
        """Look from the end, or from a cursor on, backwards.

        Raises InvalidInputError(code="invalid_cursor").
        """
        end = self._logs.end(self._execution_id, everything=everything) if before is None else None
        found = self._look(
            lambda place, most: self._logs.read_back(self._execution_id, place, most),
            before or end or "",
            limit,
        )
        return msgspec.structs.replace(found, end=end)

    def last(self, count: int, *, everything: bool) -> tuple[list[TaskLine], str]:
        """Return the latest lines in their order, and the cursor from which ``oldest`` continues."""
        page = self.newest(None, min(count, _PAGE), everything=everything)
        end, found = page.end or "", list(page.lines)
        while page.more and len(found) < count:
            page = self.newest(page.next, min(count - len(found), _PAGE), everything=everything)
            found += page.lines
        return found[::-1], end

    def _look(self, read: Callable[[str, int], LinePage], start: str, limit: int) -> FoundLines:
        if not self._wanted:
            page = read(start, limit)
            last = page.lines[-1].time if page.lines else None
            return FoundLines(list(map(shown_line, page.lines)), page.next, page.more, len(page.lines), last)
        deadline, found = self._clock() + SECONDS, _Found(limit, start)
        while True:
            page = read(found.place, _PAGE)
            for line, place in zip(page.lines, page.places, strict=True):
                if found.is_full():
                    return found.stop(found.place, more=True)
                found.look_at(line, place, self._wanted)
            if not page.more or found.scanned >= SCANNED or self._clock() > deadline:
                return found.stop(page.next, more=page.more)
            found.place = page.next


class _Found:
    """The lines that one look has found, and how far it has looked."""

    def __init__(self, limit: int, place: str) -> None:
        self._limit, self._left = limit, PAGE_BYTES
        self.place = place
        self._lines: list[TaskLine] = []
        self.scanned = 0
        self._until: str | None = None

    def is_full(self) -> bool:
        return len(self._lines) >= self._limit or self._left < 0

    def look_at(self, line: TaskLine, place: str, wanted: LineFilter) -> None:
        self.place, self._until = place, line.time
        self.scanned += 1
        if wanted.fits(line):
            self._lines.append(shown_line(line))
            self._left -= len(codec.encode(line))

    def stop(self, place: str, *, more: bool) -> FoundLines:
        return FoundLines(self._lines, place, more, self.scanned, self._until)
