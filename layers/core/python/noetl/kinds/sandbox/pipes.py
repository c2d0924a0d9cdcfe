"""Pipes to a process, of which all are open or none."""

from __future__ import annotations

import os
from collections.abc import Iterable

Pipe = tuple[int, int]
"""The end that is read, and the end that is written."""


def open_pipes(count: int) -> list[Pipe]:
    """Open so many pipes.

    Raises OSError when there are no more descriptors; none stays open then, so that the next attempt has as many as this one.
    """
    opened: list[Pipe] = []
    try:
        for _ in range(count):
            opened.append(os.pipe())
    except BaseException:
        close_pipes(opened)
        raise
    return opened


def close_pipes(pipes: Iterable[Pipe]) -> None:
    """Close both ends of each pipe."""
    for ends in pipes:
        for descriptor in ends:
            os.close(descriptor)
