"""What adapters of ``TaskLogs`` share: lines as text, pages of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.task_logs import TaskLine


def as_text(lines: Sequence[TaskLine]) -> bytes:
    """A JSON object per line."""
    return b"".join(codec.encode(line) + b"\n" for line in lines)


def from_text(texts: Iterable[bytes]) -> Iterable[TaskLine | None]:
    """None for what cannot be read: half of a line, whose writer was killed."""
    reader = codec.decoder(TaskLine)
    for text in texts:
        try:
            yield codec.decode_as(reader, text)
        except ValueError:
            yield None


def bad_cursor(after: str) -> InvalidInputError:
    return InvalidInputError(
        f"{after[:40]!r} is not a cursor of lines",
        code="invalid_cursor",
        hint="pass on the `next` of the page before, unchanged",
    )


def number(after: str) -> int:
    """A cursor that is a number; 0 for none. Raises InvalidInputError."""
    if not after:
        return 0
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise bad_cursor(after)
    return int(after)
