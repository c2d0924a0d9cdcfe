"""SQL that doubles the quotes of its values by hand."""

from __future__ import annotations

from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Leave the doubling out where the value is between quotes: it becomes a parameter."""
    for text in page.sql_texts():
        sql = text.value
        for found in reversed(page.kinds.sql_escapes(sql)):
            if found.quoted and not found.through:
                sql = sql[: found.start].rstrip() + sql[found.end :]
        rewrite(text, sql)


RULE = Rule("sql-quotes", "A value between quotes is a parameter, so its own quotes stay single.", apply)
