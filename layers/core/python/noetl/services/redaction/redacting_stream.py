"""Redaction of streamed bytes, which are never whole in memory."""

from __future__ import annotations

from noetl.services.redaction.search_blocks import Span
from noetl.services.redaction.search_spellings import KnownSecrets

MASK = b"***"
LEAST = 16 * 1024
"""Bytes that are gathered before they are looked at."""


def _mask_of(secret: bytes) -> bytes:
    """Digits stay digits: a number of JSON or a column has to stay one."""
    return b"9" * len(secret) if secret.isdigit() else MASK


class StreamMask:
    """The redaction of one stream.

    ``keep_length``: each byte of a secret is replaced by one byte, so that positions within a binary file stay right.
    """

    def __init__(self, secrets: KnownSecrets, *, keep_length: bool = False) -> None:
        self._secrets = secrets
        self._keep_length = keep_length
        self._held = bytearray()
        self._covered = 0
        """So many of the held bytes belong to a secret whose mask has left already."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that may leave now: all but an end in which a secret could begin."""
        self._held += data
        back = self._secrets.longest - 1
        if len(self._held) < back + max(back, LEAST):
            return b""
        return self._take(len(self._held) - back)

    def end(self) -> bytes:
        """Return the remaining bytes."""
        return self._take(len(self._held))

    def _take(self, cut: int) -> bytes:
        """Return the bytes before ``cut``. A secret that begins there is whole in what is held."""
        data = bytes(self._held)
        out: list[bytes] = []
        at = 0
        for start, end in self._spans(data):
            if start >= cut:
                break
            out.append(data[at:start])
            if self._keep_length:
                out.append(b"*" * (min(end, cut) - start))
            elif start > 0 or not self._covered:
                out.append(_mask_of(data[start:end]))
            at = end
        out.append(data[at:cut])
        self._covered = max(0, at - cut)
        del self._held[:cut]
        return b"".join(out)

    def _spans(self, data: bytes) -> list[Span]:
        found = self._secrets.found_in(data)
        if not self._covered:
            return found
        end = self._covered
        while found and found[0][0] < end:
            end = max(end, found.pop(0)[1])
        return [(0, end), *found]
