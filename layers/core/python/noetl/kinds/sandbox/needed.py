"""How soon this process needs the children that are kept.

It loads nothing of the sandbox: a module that reports a need need not run code itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from noetl.domain.workers.process_need import Need
from noetl.system_calls.processors import count_processors

KEPT_PER_PROCESSOR = 8
_tellers: list[Callable[[int], Need]] = []


def kept_children() -> int:
    """Count the children that a process keeps idle."""
    return KEPT_PER_PROCESSOR * count_processors()


@contextmanager
def reporting_needs(teller: Callable[[int], Need]) -> Iterator[None]:
    """Ask ``teller`` for the need of executions until the block ends; it must not wait."""
    _tellers.append(teller)
    try:
        yield
    finally:
        _tellers.remove(teller)


def need_of(execution_id: int) -> Need:
    """Return the greatest need that any module of this process reports."""
    return max((teller(execution_id) for teller in list(_tellers)), default=Need.NONE)
