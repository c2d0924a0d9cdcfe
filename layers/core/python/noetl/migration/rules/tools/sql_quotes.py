"""SQL that doubles the quotes of its values by hand."""

from __future__ import annotations

from noetl.formatting.nodes import Text, Value, items_of, map_of
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_DATABASES = ("postgres", "duckdb", "snowflake")
_QUERY = ("query", "command", "commands", "sql")


def apply(page: Page) -> None:
    """Leave the doubling out where the value is between quotes: it becomes a parameter."""
    for tool in page.tools():
        if kind_of(tool) == "transfer":
            tool = map_of(tool.get("source"))
        if kind_of(tool) not in _DATABASES:
            continue
        for name in _QUERY:
            value = tool.get(name)
            for text in [value, *items_of(value)]:
                _leave_out(page, text)


def _leave_out(page: Page, value: Value | None) -> None:
    if not isinstance(value, Text) or not isinstance(value.value, str):
        return
    text = value.value
    for found in reversed(page.kinds.sql_escapes(text)):
        if found.quoted and not found.through:
            text = text[: found.start].rstrip() + text[found.end :]
    rewrite(value, text)


RULE = Rule("sql-quotes", "A value between quotes is a parameter, so its own quotes stay single.", apply)
