"""``statement`` as the name of a query."""

from __future__ import annotations

from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_DATABASES = ("postgres", "duckdb", "snowflake")
_NAMES = ("statement", "statements")
_QUERY = ("query", "command", "commands", "sql")


def apply(page: Page) -> None:
    """Call it ``query``."""
    for tool in page.tools():
        if kind_of(tool) in _DATABASES and not any(tool.has(name) for name in _QUERY):
            for name in _NAMES:
                tool.rename(name, "query")


RULE = Rule("sql-statement", "SQL belongs in `query`.", apply)
