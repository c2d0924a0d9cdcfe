"""SQL that joins a list to the text of ``IN ( … )``."""

from __future__ import annotations

from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_DATABASES = frozenset({"postgres", "duckdb"})
"""The databases that compare with the items of a list."""


def apply(page: Page) -> None:
    """Compare with the items of the list: the joined text would be one value."""
    for text in page.sql_texts(_DATABASES):
        sql = text.value
        for found in reversed(page.kinds.sql_lists(sql)):
            sql = sql[: found.start] + found.comparison + sql[found.end :]
        rewrite(text, sql)


RULE = Rule("sql-lists", "A list is compared with as a list, not as a text.", apply, repairs=True)
