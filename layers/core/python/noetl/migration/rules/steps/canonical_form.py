"""Steps of the event form.

A step in the canonical form is another program that leaves the same history (ADR 23), so this rule comes last, and only where the original
compiles to no program that has to stay.
"""

from __future__ import annotations

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.formatting.nodes import Entry, Value, map_of, text_of
from noetl.formatting.steps import Converter
from noetl.formatting.templates import NoSpellingError
from noetl.formatting.writing import write
from noetl.migration.changes import Lines
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_TRIES = 4
"""Compilations in search of steps whose canonical form is refused."""


def apply(page: Page) -> None:
    """Convert each step that the canonical form can say; note the others with the reason.

    Behind an anchor steps stay: an alias may read them in another sense.
    """
    if page.document.anchors:
        return
    converter = Converter(page.document, page.kinds)
    before: list[tuple[Entry, Value]] = []
    for entry in converter.candidates():
        try:
            after = converter.convert(entry)
        except NoSpellingError as reason:
            _stays(page, entry, str(reason))
            continue
        before.append((entry, entry.value))
        entry.value = after
    for _ in range(_TRIES):
        if not before or (found := _problem(page)) is None:
            return
        line, message = found
        refused = [one for one in before if one[0].line <= line][-1:] or before
        for entry, value in refused:
            entry.value = value
            before.remove((entry, value))
            _stays(page, entry, f"the compiler refuses its canonical form: {message}")
    for entry, value in before:
        entry.value = value
        _stays(page, entry, "the compiler refuses the canonical form of too many steps")


def _stays(page: Page, entry: Entry, reason: str) -> None:
    name = text_of(map_of(entry.value).get("step")) or ""
    page.note(entry, f"step '{name}' stays in the event form, which runs: {reason}", safe=True)


def _problem(page: Page) -> tuple[int, str] | None:
    """Return the first error of the page as it is: the line of the original, and the message."""
    written = write(page.document)
    try:
        compile_playbook(written, kinds=page.kinds, shipped=False)
    except InvalidPlaybookError as invalid:
        first = next(one for one in invalid.diagnostics if one.severity == "error")
        return Lines(page.document).places(written)(first.line)[0], first.message
    return None


RULE = Rule(
    "canonical-form", "A step of the event form is written in the canonical form.", apply, finishes=True
)
