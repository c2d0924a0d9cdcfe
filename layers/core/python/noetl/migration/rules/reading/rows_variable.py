"""A variable of generation 1 that holds all rows of SQL."""

from __future__ import annotations

import re

from noetl.dsl.rows_as_list import NO_ROWS, SQL_KINDS
from noetl.formatting.nodes import Map, Text, inside, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.rows_list import alone

_FIRST = "noetl.io/v1"
_BY_NUMBER = re.compile(r"(?<![\w.'\"])result\s{0,9}\[\s{0,9}-?\d")
_BY_NAME = re.compile(
    r"\.(?:rows|columns|row_count|command_\d+)\b|[\[(]\s{0,9}['\"](?:rows|columns|command_\d+)['\"]"
)


def apply(page: Page) -> None:
    """Write ``result.rows`` beside a variable that reads one row of ``result`` by its number.

    A playbook that reads rows by their name anywhere knows the result as a mapping.
    """
    if text_of(page.root.get("apiVersion")) != _FIRST:
        return
    if any(_BY_NAME.search(text_of(entry.value) or "") for entry in inside(page.root)):
        return
    for step in page.steps():
        values = map_of(step.get("vars")).entries
        if step.has("loop") or not _runs_sql(step):
            continue
        if any(_BY_NUMBER.search(text_of(one.value) or "") for one in values):
            for one in values:
                if alone(one.value).strip() == "result" and isinstance(one.value, Text):
                    rewrite(one.value, "{{ result.rows }}")


def _runs_sql(step: Map) -> bool:
    tool = step.get("tool", "type")
    kind = kind_of(tool) if isinstance(tool, Map) else text_of(tool)
    return kind in SQL_KINDS and not any(
        map_of(owner).has(name) for owner in (step, tool) for name in NO_ROWS
    )


RULE = Rule("rows-variable", "A variable that holds the rows of SQL gets `rows` of the result.", apply)
