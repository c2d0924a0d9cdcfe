"""Bounds on what one template may cost, and the meter that watches them while it runs."""

from __future__ import annotations

import time

import msgspec

from noetl.domain.errors import TemplateError
from noetl.domain.long_work import begin_long_work
from noetl.domain.sizes import table


class TemplateLimits(msgspec.Struct, frozen=True):
    """What one evaluation may use.

    Sizes are characters; a list entry or mapping entry counts as eight.
    """

    max_size: int = table.TEMPLATE_TEXT.value
    """Longest text (or list, in eighths) one operation may make, and longest rendered output."""
    max_total: int = table.TEMPLATE_TOTAL.value
    """Sum over everything one evaluation makes."""
    max_range: int = table.TEMPLATE_RANGE.value
    """Numbers ``range()`` may count."""
    max_operations: int = table.TEMPLATE_OPERATIONS.value
    """Loop turns, calls and filter applications, heavy ones counting more."""
    max_int_bits: int = table.TEMPLATE_INTEGER.value
    """Largest whole number (about 3,900 digits)."""
    max_width: int = table.TEMPLATE_WIDTH.value
    """Largest width or precision in ``format`` and ``%``."""
    seconds: float = 0.5
    """Time one evaluation may take. Waiting for a large result, or for the processor, does not count."""


DEFAULT_LIMITS = TemplateLimits()
SQL_LIMITS = TemplateLimits(seconds=2.0)
"""For reading a SQL text into statements; long scripts are legitimate."""

MAX_SOURCE = table.TEMPLATE_SOURCE.value
"""Characters of one text with templates in it."""
MAX_CODE = table.TEMPLATE_CODE.value
"""Characters inside the braces of one text, or of one expression."""
MAX_TAGS = table.TEMPLATE_TAGS.value
"""Expressions and block tags in one text."""
MAX_BRACKETS = table.TEMPLATE_BRACKETS.value
"""Brackets open at one place of an expression."""
MAX_TREE_DEPTH = table.TEMPLATE_TREE.value
"""Operators, filters and blocks nested in one template."""
MAX_VALUE_WEIGHT = table.TEMPLATE_BYTES.value
"""Bytes (about) that a list or mapping made by a template may have as JSON; stored data passed on as it is does not count."""
MAX_VALUE_DEPTH = table.TEMPLATE_DEPTH.value
"""Lists and mappings nested in a value a template makes."""

_CHECK_EVERY = 256
_LONG = 50_000
"""Operations after which a request needs a place among those that take long."""
_CPU_SHARE = 0.5
"""A template is stopped only when it also used this share of its seconds as processor time: a machine that was suspended
or is overloaded must not fail a harmless template."""


def over_limit(message: str, hint: str | None = None) -> TemplateError:
    """Make the error of every bound."""
    return TemplateError(message, code="template_limit", hint=hint)


class Meter:
    """A meter of one evaluation, or of several that share it; it stops them at a limit."""

    __slots__ = ("_allocated", "_cpu_started", "_long", "_next_check", "_operations", "_started", "limits")

    def __init__(self, limits: TemplateLimits) -> None:
        self.limits = limits
        self._operations = 0
        self._allocated = 0
        self._next_check = _CHECK_EVERY
        self._long = False
        self._started = 0.0
        self._cpu_started = 0.0

    def tick(self, cost: int = 1) -> None:
        """Count work. Raises TemplateError(code="template_limit")."""
        self._operations += cost
        if self._operations >= self._next_check:
            self._check()

    def allocate(self, size: int) -> None:
        """Count a value of ``size`` before it is made.

        Raises TemplateError(code="template_limit").
        """
        if size > self.limits.max_size:
            raise over_limit(
                f"the template would make a value of size {size}; at most {self.limits.max_size} is allowed"
            )
        self._allocated += size
        if self._allocated > self.limits.max_total:
            raise over_limit(
                f"the template makes values of more than {self.limits.max_total} characters altogether"
            )
        if size > 64:
            self.tick(1 + (size >> 12))

    def _check(self) -> None:
        self._next_check = self._operations + _CHECK_EVERY
        if self._operations > _LONG and not self._long:
            begin_long_work()
            self._long = True
        if self._operations > self.limits.max_operations:
            raise over_limit(
                f"the template takes more than {self.limits.max_operations} operations",
                "move heavy work into a python or duckdb task",
            )
        now = time.monotonic()
        if not self._started:
            self._started, self._cpu_started = now, time.thread_time()
        elif now - self._started > self.limits.seconds:
            used = time.thread_time() - self._cpu_started
            if used > self.limits.seconds * _CPU_SHARE:
                raise over_limit(
                    f"the template takes longer than {self.limits.seconds} s",
                    "move heavy work into a python or duckdb task",
                )


Allowance = TemplateLimits | Meter
"""What an evaluation may use: limits for it alone, or a meter that it shares with others."""
