"""SQL that joins a list to the text of ``IN ( … )``."""

from __future__ import annotations

from noetl.formatting.nodes import Text, Value, items_of, map_of
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_DATABASES = ("postgres", "duckdb")
_QUERY = ("query", "command", "commands", "sql")


def apply(page: Page) -> None:
    """Compare with the items of the list: the joined text would be one value."""
    for tool in page.tools():
        if kind_of(tool) == "transfer":
            tool = map_of(tool.get("source"))
        if kind_of(tool) not in _DATABASES:
            continue
        for name in _QUERY:
            value = tool.get(name)
            for text in [value, *items_of(value)]:
                _compare(page, text)


def _compare(page: Page, value: Value | None) -> None:
    if not isinstance(value, Text) or not isinstance(value.value, str):
        return
    text = value.value
    for found in reversed(page.kinds.sql_lists(text)):
        text = text[: found.start] + found.comparison + text[found.end :]
    rewrite(value, text)


RULE = Rule("sql-lists", "A list is compared with as a list, not as a text.", apply, repairs=True)
