"""Changes that a rule made to a text, hunk by hunk, with lines of the original file."""

from __future__ import annotations

import bisect
import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

from noetl.formatting.nodes import Document, Entry, List, Map, Text, Value, inside
from noetl.formatting.reading import read

_STEP = re.compile(r"\s*- step:")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a text.

    ``line`` is of the original file; ``before`` and ``after`` are whole lines without their indentation, unless that is what changed.
    """

    rule: str
    line: int
    before: str
    after: str
    column: int = 1


def state_of(document: Document) -> list[object]:
    """Return what a rule can change of a document, to be compared with what it is later."""
    found: list[object] = []
    _state(document.root, found)
    return found


def _state(value: Value, found: list[object]) -> None:
    if isinstance(value, (Map, List)):
        found.append(type(value))
        for entry in value.entries:
            found.append(entry.raw_key)
            _state(entry.value, found)
        found.append(value.flow)
    elif isinstance(value, Text):
        found.append((value.value, value.style))
    else:
        found.append(value.name)


class Lines:
    """Places of a document's entries in the file it was read from.

    They are taken before a rule moves the entries.
    """

    def __init__(self, document: Document) -> None:
        self._entries = [(entry.line, entry.column + 1, _height(entry)) for entry in inside(document.root)]

    def places(self, written: str) -> Callable[[int], tuple[int, int]]:
        """Return a function that maps a line of the written text to the original's place.

        The place is line and column.
        """
        starts: list[int] = []
        found: list[tuple[int, int]] = []
        deeper: dict[int, tuple[int, int]] = {}
        known = (1, 1)
        now = inside(read(written, "<written>").root)
        for (line, column, height), entry in zip(self._entries, now, strict=True):
            known = (line, column) if line else known
            if not starts or starts[-1] != entry.line:
                starts.append(entry.line)
                found.append(known)
            if line:
                deeper.update({entry.line + more: (line + more, 1) for more in range(1, height)})

        def original(line: int) -> tuple[int, int]:
            place = bisect.bisect_right(starts, line) - 1
            return deeper.get(line, found[place] if place >= 0 else (1, 1))

        return original


def _height(entry: Entry) -> int:
    """Return how many lines a block text takes, its own included."""
    value = entry.value
    if not isinstance(value, Text) or value.style not in ("|", ">") or not isinstance(value.value, str):
        return 1
    return value.value.count("\n") + 1


def changes(rule: str, before: str, after: str, lines: Lines) -> tuple[Change, ...]:
    """Return each hunk of a rewriting.

    Those that only indent lines are left out, unless there are no others.
    """
    if before == after:
        return ()
    original = lines.places(before)
    hunks = _hunks(before.splitlines(), after.splitlines())
    moved = all(_dedented(old) == _dedented(new) for _, old, new in hunks)
    shown = _whole if moved else _dedented
    return tuple(
        Change(rule, line, shown(old), shown(new), column)
        for start, old, new in hunks
        if moved or _dedented(old) != _dedented(new)
        for line, column in [original(start + 1)]
    )


def _whole(lines: list[str]) -> str:
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _hunks(old: list[str], new: list[str]) -> list[tuple[int, list[str], list[str]]]:
    """Compare step by step, so that the work does not grow with the square of the steps."""
    parts, made = _parts(old), _parts(new)
    pairs = list(zip(parts, made, strict=True)) if len(parts) == len(made) else [((0, old), (0, new))]
    found = []
    for (offset, one), (_, other) in pairs:
        if one == other:
            continue
        matcher = difflib.SequenceMatcher(None, one, other, len(one) > 500)
        for tag, start, end, first, last in matcher.get_opcodes():
            if tag != "equal":
                found.append((offset + start, one[start:end], other[first:last]))
    return found


def _parts(lines: list[str]) -> list[tuple[int, list[str]]]:
    starts = [0, *(place for place, line in enumerate(lines) if place and _STEP.match(line))]
    ends = [*starts[1:], len(lines)]
    return [(start, lines[start:end]) for start, end in zip(starts, ends, strict=True)]


def _dedented(lines: list[str]) -> str:
    filled = [line for line in lines if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    return "\n".join(line[margin:].rstrip() for line in lines).strip("\n")
