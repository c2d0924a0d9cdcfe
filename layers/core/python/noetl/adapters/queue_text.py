"""What any queue takes: checked once, for SQS and for its twin, before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Sequence

from noetl.domain.errors import InvalidInputError
from noetl.ports.queue import MAX_DELAY, Outgoing

MAX_BYTES = 1024 * 1024
"""Of one message, and of one request: SQS takes 1 MiB."""
# What XML 1.0 leaves out. In JSON these can only stand inside strings, where an escape means the same.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NAME = re.compile(r"[!-~]{1,128}", re.ASCII)


def sendable(messages: Sequence[Outgoing], *, fifo: bool, limit: int) -> list[str]:
    """The bodies as they travel: JSON texts, characters escaped that queues refuse.

    Raises InvalidInputError before anything was sent: ``message_too_large`` (more than ``limit`` bytes of UTF-8), ``message_empty``,
    ``message_group`` (a group or deduplication id that queues refuse, or that a FIFO queue misses), ``message_delay``.
    """
    return [_body(message, place, fifo, limit) for place, message in enumerate(messages)]


def shown(text: str) -> str:
    """Return ``text`` in ASCII, as queues take it beside a body.

    Every other character is escaped as Python does it.
    """
    plain = text.encode("ascii", "backslashreplace").decode()
    return _REFUSED.sub(lambda found: f"\\x{ord(found.group()):02x}", plain)


def _body(message: Outgoing, place: int, fifo: bool, limit: int) -> str:
    _check_names(message, place, fifo)
    if not 0 <= message.delay <= (0 if fifo else MAX_DELAY):
        most = "FIFO queues do not delay" if fifo else f"at most {MAX_DELAY}"
        raise InvalidInputError(
            f"message {place}: a delay of {message.delay} seconds ({most})", code="message_delay"
        )
    text = _REFUSED.sub(lambda found: f"\\u{ord(found.group()):04x}", message.body)
    if not text:
        raise InvalidInputError(f"message {place} is empty", code="message_empty")
    size = len(text.encode())
    if size > limit:
        raise InvalidInputError(
            f"message {place} has {size} bytes; the queue takes {limit}",
            code="message_too_large",
            hint="send a reference to the result store instead",
            details={"size": size, "limit": limit, "position": place},
        )
    return text


def _check_names(message: Outgoing, place: int, fifo: bool) -> None:
    for what, name, needed in (("group", message.group, fifo), ("dedup", message.dedup, fifo)):
        if (name or needed) and not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"message {place}: {what}={name[:140]!r} is not 1 to 128 printable ASCII characters",
                code="message_group",
            )
