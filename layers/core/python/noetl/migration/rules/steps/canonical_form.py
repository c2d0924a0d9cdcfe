"""Steps of the event form.

A step in the canonical form is another program that leaves the same history (ADR 23), so this rule comes last, and only where the original
compiles to no program that has to stay.
"""

from __future__ import annotations

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.formatting.nodes import Entry
from noetl.formatting.steps import Converter, refused_form
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
    changes, unsaid = Converter(page.document, page.kinds).changes()
    for entry, step in unsaid:
        _stays(page, entry, step.step, step.reason)
    for change in changes:
        change.entry.value = change.after
    for _ in range(_TRIES):
        if not changes or (found := _problem(page)) is None:
            return
        line, message = found
        refused = [one for one in changes if one.entry.line <= line][-1:] or changes
        for change in refused:
            change.entry.value = change.before
            _stays(page, change.entry, change.name, refused_form(message))
        changes = [one for one in changes if one not in refused]
    for change in changes:
        change.entry.value = change.before
        _stays(page, change.entry, change.name, "the compiler refuses the canonical form of too many steps")


def _stays(page: Page, entry: Entry, name: str, reason: str) -> None:
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
