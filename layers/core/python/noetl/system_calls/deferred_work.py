"""Work that a thread defers until it waits for something else anyway.

A thread that reports an outcome writes it to the database next, and waits for that about as long as it takes to look over the process
that ran the task. Work that nothing waits for is done in that time: after a statement has been sent, and before its answer is read.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Work = Callable[[], object]


class _OfThread(threading.local):
    left: deque[Work] | None = None


_of_thread = _OfThread()


@contextmanager
def deferring() -> Iterator[None]:
    """Let this thread defer work; do what is left of it at the end."""
    before, _of_thread.left = _of_thread.left, deque()
    try:
        yield
    finally:
        try:
            do_deferred()
        finally:
            _of_thread.left = before


def defer(work: Work) -> None:
    """Do ``work`` when this thread waits next, or now where it defers nothing.

    ``work`` raises nothing.
    """
    if _of_thread.left is None:
        work()
    else:
        _of_thread.left.append(work)


def is_deferring() -> bool:
    """Return whether ``defer`` defers."""
    return _of_thread.left is not None


def has_deferred() -> bool:
    """Return whether this thread has deferred work."""
    return bool(_of_thread.left)


def do_deferred() -> None:
    """Do the work that this thread deferred, once each."""
    left = _of_thread.left
    while left:
        left.popleft()()
