"""Code that reads the result of SQL below ``data``, where another release kept it."""

from __future__ import annotations

from noetl.dsl.rows_as_list import whole_result
from noetl.dsl.shapes_in_code import data_of_sql
from noetl.formatting.nodes import Map, Text, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.rows_list import alone, code_with_names, given_to, gives_rows, last_tasks


def apply(page: Page) -> None:
    """Leave ``data`` out where an entry of the result is read in it."""
    workload = {str(entry.key) for entry in map_of(page.root.get("workload")).entries}
    for step, task, names in code_with_names(page, last_tasks(page), gives_rows):
        _leave_out(step, task, names - workload)


def _leave_out(step: Map, task: Map, rows: set[str]) -> None:
    code = task.get("code")
    text = text_of(code)
    if not isinstance(code, Text) or text is None:
        return
    own = given_to(task)
    read = {str(one.key): whole_result(alone(one.value)) for one in [*given_to(step), *own]}
    given = {name: found[0] for name, found in read.items() if found is not None and found[0] in rows}
    for one in reversed(data_of_sql(text, given, rows - read.keys())):
        if one.end:
            text = text[: one.start] + text[one.end :]
    rewrite(code, text)


RULE = Rule(
    "data-of-sql", "Code reads entries of the result of SQL in it, and not below `data`.", apply, repairs=True
)
