"""Parts of secrets in texts that were cut: the beginning before the cut, the end after it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

KEY = 6
"""Shorter pieces are left: they would take ordinary words with them."""
_LONG = 256
_MARKS = frozenset("…'\"`\\\n")
"""Beside these a cut is taken for granted: texts are quoted after they were cut."""
_DOTS = "..."

_Table = dict[str, list[str]]


class TruncatedSecrets:
    """``forms``: whole texts, which were taken out before."""

    def __init__(self, forms: Iterable[str]) -> None:
        known = {form for form in forms if len(form) > KEY}
        self._beginnings = _table(known)
        self._ends = _table({form[::-1] for form in known})

    def mask(self, text: str, by: str) -> str:
        """Replace every piece of a secret of ``KEY`` or more characters beside a cut by ``by``."""
        if len(text) < KEY:
            return text
        size = len(text)
        gone = [*_pieces(text, self._beginnings)]
        gone += [(size - end, size - start) for start, end in _pieces(text[::-1], self._ends)]
        if not gone:
            return text
        kept: list[str] = []
        at = 0
        for start, end in sorted(gone):
            if start >= at:
                kept += [text[at:start], by]
            at = max(at, end)
        return "".join([*kept, text[at:]])


def _table(forms: Iterable[str]) -> _Table:
    """Forms in order, by their first ``KEY`` characters."""
    found: _Table = {}
    for form in sorted(forms):
        found.setdefault(form[:KEY], []).append(form)
    return found


def _pieces(text: str, table: _Table) -> Iterator[tuple[int, int]]:
    """Where a form begins that ends at a cut."""
    if len(text) > _LONG and not any(key in text for key in table):
        return
    for start in range(len(text) - KEY + 1):
        forms = table.get(text[start : start + KEY])
        if forms is None:
            continue
        end = start + max(_shared(text, start, form) for form in _nearest(text, start, forms))
        if _is_cut(text, end):
            yield start, end


def _nearest(text: str, start: int, forms: list[str]) -> list[str]:
    """Return those of the sorted ``forms`` that share most with ``text`` at ``start``.

    They are its neighbours in their order.
    """
    longest = max(len(forms[0]), len(forms[-1]), 256)
    place = bisect_left(forms, text[start : start + longest])
    return forms[max(place - 1, 0) : place + 1]


def _shared(text: str, start: int, form: str) -> int:
    """Return how many characters of ``form`` are at ``start``."""
    low, high = KEY, min(len(form), len(text) - start)
    while low < high:
        middle = (low + high + 1) // 2
        if text.startswith(form[:middle], start):
            low = middle
        else:
            high = middle - 1
    return low


def _is_cut(text: str, end: int) -> bool:
    return end == len(text) or text[end] in _MARKS or text[end - 1] in _MARKS or text.startswith(_DOTS, end)
