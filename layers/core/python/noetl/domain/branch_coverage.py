"""Reports of the branches of a program that are taken, while a listener measures coverage.

Without a listener nothing is kept. The report is the object of the Program (a rule, an admission rule, an arc) whose guard held, so
it has no effect on what is decided.
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
    """Call ``listener`` with every branch that this thread takes while the context is open."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
