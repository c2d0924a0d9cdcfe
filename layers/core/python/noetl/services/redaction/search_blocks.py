"""Search bytes for many texts at once, in time that depends on the bytes alone.

The bytes are looked at in blocks, as the numbers they make up. A text that stands somewhere covers at least one block entirely, and which
blocks it can cover is known beforehand: so a pass costs one look into a table for each block, however many texts there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

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


class Blocks:
    """What is to be taken out: texts of at least four bytes."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        known = set(secrets)
        self.longest = max(map(len, known), default=0)
        self._groups = (
            _Group((one for one in known if len(one) >= 15), 8, aligned=True),
            _Group((one for one in known if 7 <= len(one) < 15), 4, aligned=True),
            _Group((one for one in known if len(one) < 7), 4, aligned=False),
        )

    def __bool__(self) -> bool:
        return self.longest > 0

    def found_in(self, data: bytes) -> list[Span]:
        """Return where texts are, in ascending order, with overlapping spans merged."""
        return merged(span for group in self._groups for span in group.found_in(data))


def merged(spans: Iterable[Span]) -> list[Span]:
    """Merge overlapping spans; return them in ascending order."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
