"""What adapters of ``TaskLogs`` share: lines as text, pages of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.task_logs import LinePage, TaskLine


def as_text(lines: Sequence[TaskLine]) -> bytes:
    """A JSON object per line."""
    return b"".join(codec.encode(line) + b"\n" for line in lines)


def make_page(texts: Iterable[tuple[bytes, str]], end: str, more: bool) -> LinePage:
    """Make a page of texts, each with the cursor behind it.

    What cannot be read is left out: half of a line, whose writer was killed.
    """
    reader = codec.decoder(TaskLine)
    lines: list[TaskLine] = []
    places: list[str] = []
    for text, place in texts:
        with suppress(ValueError):
            lines.append(codec.decode_as(reader, text))
            places.append(place)
    return LinePage(lines, end, more, places)


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
