"""Admission of long computations: only a few requests may compute at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


def _anybody() -> None:
    """Outside of requests nothing is bounded: workers and the engine have limits of their own."""


_begin: ContextVar[Callable[[], None]] = ContextVar("begin_long_work", default=_anybody)


def begin_long_work() -> None:
    """Take a place among the few that compute for long, unless this request has one.

    Raises OverloadedError when there is none left.
    """
    _begin.get()()


@contextmanager
def asking(begin: Callable[[], None]) -> Iterator[None]:
    """Have ``begin`` asked by what is done inside."""
    token = _begin.set(begin)
    try:
        yield
    finally:
        _begin.reset(token)
