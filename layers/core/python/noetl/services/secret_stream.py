"""Secrets taken out of bytes that pass by: results that are streamed are never whole in memory.

The bytes are looked at in blocks, as the numbers they make up. A secret that stands somewhere covers at least one block entirely, and which
blocks it can cover is known beforehand: so a pass costs one look into a table for each block, however many secrets there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

MASK = b"***"
LEAST = 16 * 1024
"""Bytes that are gathered before they are looked at."""

Span = tuple[int, int]


class _Group:
    """Secrets of similar lengths. ``width``: bytes of a block.

    Those that are long enough have an aligned block in them wherever they stand, and are known by the blocks in a window of them; the
    bytes are then looked at once. Shorter ones are known by their first block, and are looked for at every byte.
    """

    def __init__(self, secrets: Iterable[bytes], width: Literal[4, 8], *, aligned: bool) -> None:
        self._width = width
        self._code: Literal["I", "Q"] = "I" if width == 4 else "Q"
        self._shifts = range(1) if aligned else range(width)
        self._blocks: dict[int, list[tuple[int, bytes]]] = {}
        for secret in secrets:
            # The middle: secrets of one kind begin alike (`https://`, `-----BEGIN`), and texts that are none begin so as well.
            first = (len(secret) - 2 * width + 1) // 2 if aligned else 0
            for start in range(first, first + (width if aligned else 1)):
                block = memoryview(secret)[start : start + width].cast(self._code)[0]
                self._blocks.setdefault(block, []).append((start, secret))
        self._known = frozenset(self._blocks)

    def found_in(self, data: bytes) -> Iterator[Span]:
        if not self._known:
            return
        for shift in self._shifts:
            end = shift + (len(data) - shift) // self._width * self._width
            view = memoryview(data)[shift:end].cast(self._code)
            if self._known.isdisjoint(view):
                continue
            for place, block in enumerate(view):
                for before, secret in self._blocks.get(block, ()):
                    start = shift + place * self._width - before
                    if start >= 0 and data.startswith(secret, start):
                        yield start, start + len(secret)


class StreamSecrets:
    """What is to be taken out: texts of at least four bytes."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        known = set(secrets)
        self.longest = max(map(len, known), default=0)
        self._groups = (
            _Group((one for one in known if len(one) >= 15), 8, aligned=True),
            _Group((one for one in known if 7 <= len(one) < 15), 4, aligned=True),
            _Group((one for one in known if len(one) < 7), 4, aligned=False),
        )

    def found_in(self, data: bytes) -> list[Span]:
        """Where secrets stand, ascending; those that overlap as one."""
        found: list[Span] = []
        for start, end in sorted(span for group in self._groups for span in group.found_in(data)):
            if found and start < found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            else:
                found.append((start, end))
        return found


def _mask_of(secret: bytes) -> bytes:
    """Digits stay digits: a number of JSON or a column has to stay one."""
    return b"9" * len(secret) if secret.isdigit() else MASK


class StreamMask:
    """One stream. ``keep_length``: what is taken out is replaced byte by byte, so that places within a binary file stay right."""

    def __init__(self, secrets: StreamSecrets, *, keep_length: bool = False) -> None:
        self._secrets = secrets
        self._keep_length = keep_length
        self._held = bytearray()
        self._covered = 0
        """So many of the held bytes belong to a secret whose mask has left already."""

    def feed(self, data: bytes) -> bytes:
        """What may leave now: all but an end that a secret could have begun in."""
        self._held += data
        back = self._secrets.longest - 1
        if len(self._held) < back + max(back, LEAST):
            return b""
        return self._take(len(self._held) - back)

    def end(self) -> bytes:
        """The rest."""
        return self._take(len(self._held))

    def _take(self, cut: int) -> bytes:
        """The bytes before ``cut``; a secret that begins there stands whole in what is held."""
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
