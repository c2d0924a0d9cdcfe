"""What a rule did to a text, hunk by hunk, with the lines of the file that it was read from."""

from __future__ import annotations

import bisect
import difflib
from dataclasses import dataclass

from noetl.formatting.nodes import Document, Entry, inside
from noetl.formatting.reading import read


@dataclass(frozen=True, slots=True)
class Change:
    """``line`` is of the original file; ``before`` and ``after`` are whole lines without their indentation."""

    rule: str
    line: int
    before: str
    after: str


class Lines:
    """Lines of a text that was written from a document → lines and columns of the file the document was read from."""

    def __init__(self, document: Document, text: str) -> None:
        written = read(text, "<written>").root
        self._starts: list[int] = []
        self._places: list[tuple[int, int]] = []
        known = (1, 1)
        for entry, now in zip(inside(document.root), inside(written), strict=True):
            known = (entry.line, entry.column + 1) if entry.line else known
            if not self._starts or self._starts[-1] != now.line:
                self._starts.append(now.line)
                self._places.append(known)
        self._exact = _exact(document, written)

    def original(self, line: int) -> tuple[int, int]:
        """Return where the entry on this line, or above it, came from."""
        place = bisect.bisect_right(self._starts, line) - 1
        if place < 0:
            return (1, 1)
        found = self._places[place]
        return self._exact.get(line, found)


def _exact(document: Document, written: object) -> dict[int, tuple[int, int]]:
    """Return lines inside block texts: they follow their entry line by line."""
    found: dict[int, tuple[int, int]] = {}
    root = getattr(written, "entries", None)
    if root is None:
        return found
    for entry, now in zip(inside(document.root), inside(written), strict=True):  # type: ignore[arg-type]
        for further in range(1, _height(entry)):
            if entry.line:
                found[now.line + further] = (entry.line + further, 1)
    return found


def _height(entry: Entry) -> int:
    value = getattr(entry.value, "value", None)
    return value.count("\n") + 1 if isinstance(value, str) else 1


def changes(rule: str, before: str, after: str, lines: Lines) -> list[Change]:
    """Return each hunk of a rewriting."""
    old, new = before.splitlines(), after.splitlines()
    found = []
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if tag == "equal":
            continue
        line, _ = lines.original(min(start + 1, max(len(old), 1)))
        found.append(Change(rule, line, _dedented(old[start:end]), _dedented(new[new_start:new_end])))
    return found


def _dedented(lines: list[str]) -> str:
    filled = [line for line in lines if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    return "\n".join(line[margin:].rstrip() for line in lines).strip("\n")
