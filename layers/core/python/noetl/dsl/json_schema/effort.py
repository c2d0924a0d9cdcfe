"""A bound on the computation of one schema check.

It is counted in operations, so that the same check always ends the same way.
"""

from __future__ import annotations

from typing import Any

from noetl.domain.long_work import begin_long_work
from noetl.domain.sizes.gate import weight
from noetl.domain.sizes.table import SCHEMA_NESTING, SCHEMA_OPERATIONS

_LONG = 10_000
"""Operations after which a check needs a place among those that take long."""
_PER_OPERATION = 200
"""Characters times instructions of a pattern that count as one operation."""
_PER_VALUE = 8
"""Weight of a value that counts as one operation."""
_PROBLEM = 10
_TEXT = 1024
"""Characters of a message that are written in one operation."""


class EffortExceededError(Exception):
    """The check would take more operations than one check may."""


class NestingExceededError(Exception):
    """The check would apply more keywords inside each other than one check may."""


class Effort:
    """Counts down. An operation is one keyword of a schema, applied to one value.

    Keywords inside each other are counted too, because each takes up to four frames of Python's stack. At the end of the stack the library's
    compiled maps raise an error that is no ``Exception``.
    """

    __slots__ = ("_inside", "_left", "_lookup", "_place")

    def __init__(self, lookup: int = 1, most: int = SCHEMA_OPERATIONS.value) -> None:
        """``lookup``: operations that following one reference takes."""
        self._left, self._lookup = most, lookup
        self._place = most - _LONG
        self._inside = 0

    def enter(self) -> None:
        """Go into a keyword. Raises NestingExceededError when too many are open."""
        self._inside += 1
        if self._inside > SCHEMA_NESTING.value:
            raise NestingExceededError

    def leave(self) -> None:
        """Leave a keyword; the keyword that asked for it continues.

        The keyword that is left may be suspended.
        """
        self._inside -= 1

    def spend(self, operations: int) -> None:
        """Count operations of this check.

        Raises EffortExceededError, and OverloadedError when too many checks take long at the same moment.
        """
        self._left -= operations
        if self._left < self._place:
            if self._left < 0:
                raise EffortExceededError
            self._place = 0
            begin_long_work()

    def reference(self, text: str) -> None:
        self.spend(self._lookup + text.count("/"))

    def match(self, size: int, text: str) -> None:
        self.spend(size * len(text) // _PER_OPERATION)

    def value(self, value: Any) -> None:
        """Count a value that is compared, or written out, as a whole."""
        self.spend(1 + weight(value, _PER_VALUE * self._left) // _PER_VALUE)

    def problem(self, message: str) -> None:
        """Count a problem: its message is kept and quotes a value, which may be large."""
        self.spend(_PROBLEM + len(message) // _TEXT)
