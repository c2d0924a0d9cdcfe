"""Told which of a program's branches are taken, while somebody measures that; otherwise nobody listens and nothing is kept.

What is told is the very object of the Program (a rule, an admission rule, an arc) whose guard held, so it has no effect on what is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[object], None] | None] = ContextVar("noetl_branches", default=None)


def taken(branch: object) -> None:
    """This branch is taken: its guard held, or it has none."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(branch)


@contextmanager
def listening(listener: Callable[[object], None]) -> Iterator[None]:
    """``listener`` is told of every branch that is taken in this thread while the context is open."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
