"""Copies of files for one task, which end with its time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext

CHUNK = 1024 * 1024


def pieces_of(stream: BinaryIO) -> Iterator[bytes]:
    """Yield what a stream has, by pieces of ``CHUNK`` bytes."""
    return iter(lambda: stream.read(CHUNK), b"")


def write_pieces(pieces: Iterable[bytes], place: Path, what: str, context: TaskContext, until: float) -> None:
    """Write a file, until the execution is cancelled or the task's time is over.

    ``what``: for messages. ``until``: monotonic seconds. Raises TaskError.
    """
    with place.open("wb") as out:
        for piece in pieces:
            out.write(piece)
            if context.cancelled():
                raise TaskError(
                    f"the execution was cancelled while {what} was read", kind="cancelled", code="cancelled"
                )
            if time.monotonic() > until:
                raise TaskError(
                    f"{what} was not read within {context.timeout:g} s", kind="timeout", code="timeout"
                )
