"""``database: ":memory:"`` of duckdb."""

from __future__ import annotations

from noetl.formatting.nodes import text_of
from noetl.migration.page import Page, kind_of, remove
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Remove it: without ``database`` a task has a database in memory."""
    for tool in page.tools():
        entry = tool.entry("database")
        if kind_of(tool) == "duckdb" and entry is not None and text_of(entry.value) == ":memory:":
            remove(tool, entry)


RULE = Rule("duckdb-memory", "Without `database`, duckdb works in memory.", apply)
