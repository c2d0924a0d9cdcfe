"""``as_objects`` of duckdb."""

from __future__ import annotations

from noetl.formatting.nodes import plain
from noetl.migration.page import Page, kind_of, remove
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Remove it where it is true: a row is a mapping always."""
    for tool in page.tools():
        entry = tool.entry("as_objects")
        if kind_of(tool) != "duckdb" or entry is None:
            continue
        if plain(entry.value) is True:
            remove(tool, entry)
        else:
            page.refuse(
                entry,
                "rows are mappings, and never lists",
                "leave `as_objects` out, and read columns by name",
            )


RULE = Rule("row-objects", "A row of duckdb is a mapping, so a task has no `as_objects`.", apply)
