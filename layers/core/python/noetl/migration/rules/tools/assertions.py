"""``assert`` of a tool: names that it expects and returns."""

from __future__ import annotations

from noetl.formatting.nodes import List, Map, Text, Value
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
                safe=_is_list_of_names(entry.value),
            )


def _is_list_of_names(value: Value) -> bool:
    """Return whether an ``assert`` only documents the names that code takes and returns."""
    if not isinstance(value, Map) or not set(value.keys()) <= {"expects", "returns"}:
        return False
    return all(
        isinstance(entry.value, List) and all(isinstance(item, Text) for item in entry.value.values())
        for entry in value.entries
    )


RULE = Rule("assertions", "A tool has no `assert`: its code checks what it takes and returns.", apply)
