"""``assert`` of a tool: names that it expects and returns."""

from __future__ import annotations

from noetl.migration.page import Page, remove
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Remove it: missing input fails where it is read."""
    for owner in (*page.tools(), *page.workbook(), *page.steps()):
        entry = owner.entry("assert")
        if entry is not None:
            remove(owner, entry)
            page.note(
                entry,
                "`assert` is left out: input that is missing fails the code that reads it; check a result in `code`",
            )


RULE = Rule("assertions", "A tool has no `assert`: its code checks what it takes and returns.", apply)
