"""``statement`` as the name of a query."""

from __future__ import annotations

from noetl.dsl.rows_as_list import SQL_KINDS
from noetl.migration.page import QUERIES, Page, kind_of
from noetl.migration.rule import Rule

_NAMES = ("statement", "statements")


def apply(page: Page) -> None:
    """Call it ``query``."""
    for tool in page.tools():
        if kind_of(tool) in SQL_KINDS and not any(tool.has(name) for name in QUERIES):
            for name in _NAMES:
                tool.rename(name, "query")


RULE = Rule("sql-statement", "SQL belongs in `query`.", apply)
