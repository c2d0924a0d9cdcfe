"""SQL whose whole text is a template."""

from __future__ import annotations

import re

from noetl.dsl.rows_as_list import SQL_KINDS
from noetl.formatting.nodes import Text
from noetl.formatting.spelling import rewrite
from noetl.migration.guards import inner
from noetl.migration.page import QUERIES, Page, kind_of
from noetl.migration.rule import Rule

_FILTERED = re.compile(r"\|\s*raw_sql\b")


def apply(page: Page) -> None:
    """Say that the value is SQL: any other value is bound, and no statement."""
    for tool in page.tools():
        if kind_of(tool) not in SQL_KINDS:
            continue
        for entry in tool.entries:
            value = entry.value
            if entry.key not in QUERIES or not isinstance(value, Text):
                continue
            expression = inner(str(value.value).rstrip("; \n"))
            if expression is None or _FILTERED.search(expression):
                continue
            shown = f"({expression})" if re.search(r"\b(if|or|and)\b|[~+]", expression) else expression
            rewrite(value, f"{{{{ {shown} | raw_sql }}}}")
            page.note(
                entry, "this text is run as SQL: no value of a caller or of another system may be part of it"
            )


RULE = Rule("sql-text", "A value that is a whole statement says so.", apply)
