"""A loop run that resumes an earlier one: which run, and which of its items run again.

Indexes of items are kept as ranges ``((start, stop), …)``, ascending and apart: what is left of a loop is usually a few of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec

Ranges = tuple[tuple[int, int], ...]
FAILED = -1
"""For an item's index: all those that failed, and those that never ran."""


class LoopResume(msgspec.Struct, frozen=True, omit_defaults=True):
    """The earlier loop run that a new run of the loop continues.

    ``item``: the index of the item that runs again, or FAILED. ``applied``: what the items of that run wrote is in the context already.
    """

    run: int
    round: int
    item: int = FAILED
    applied: bool = True


def ranges_of(indexes: Iterable[int]) -> Ranges:
    """Ascending indexes, each once, as ranges."""
    found: list[tuple[int, int]] = []
    for index in indexes:
        if found and found[-1][1] == index:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((index, index + 1))
    return tuple(found)


def count(ranges: Ranges) -> int:
    """How many indexes there are."""
    return sum(stop - start for start, stop in ranges)


def indexes(ranges: Ranges) -> Iterator[int]:
    """All of them, ascending."""
    for start, stop in ranges:
        yield from range(start, stop)


class Places:
    """Where the items of a run are in the whole loop: place 0, 1, … in the run ↔ index.

    Without ranges the two are the same.
    """

    __slots__ = ("_ends", "_ranges")

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._ranges = ranges
        self._ends = list(accumulate((stop - start for start, stop in ranges), initial=0))

    def index(self, place: int) -> int:
        if not self._ranges:
            return place
        number = min(bisect_right(self._ends, place) - 1, len(self._ranges) - 1)
        return self._ranges[number][0] + place - self._ends[number]

    def ranges(self, start: int, stop: int) -> Ranges:
        """The indexes of places ``start <= place < stop``, as ranges."""
        found = []
        for (first, past), place in zip(self._ranges, self._ends, strict=False):
            begin, end = max(start, place), min(stop, place + past - first)
            if begin < end:
                found.append((first + begin - place, first + end - place))
        return tuple(found)
