"""Texts of which some parts are unknown, compared in a time that grows with the text."""

from __future__ import annotations

from collections.abc import Sequence


def fits(parts: Sequence[str], text: str, *, gap: int = 0) -> bool:
    """Return whether ``text`` has these parts in order, from its beginning to its end.

    ``gap``: the fewest characters between two parts. A regular expression would try every place of every part.
    """
    if len(parts) == 1:
        return text == parts[0]
    first, *middle, last = parts
    place, end = len(first) + gap, len(text) - len(last)
    if not (text.startswith(first) and text.endswith(last)):
        return False
    for part in middle:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part) + gap
    return place <= end
