"""``result.data`` in ``vars`` of a step, where another release kept the result.

The result of SQL has no ``data``; that of a call or of code may have such a key itself.
"""

from __future__ import annotations

import re

from noetl.domain.errors import TemplateError
from noetl.dsl.rows_as_list import SQL_KINDS
from noetl.formatting.nodes import Entry, Map, Text, inside, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.formatting.templates import in_templates
from noetl.migration.page import Page, kind_of, statements_of
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.rows_list import gives_rows
from noetl.templating.sql_split import split

_DATA = re.compile(r"(?<![\w.'\"])result\.data\b(?!\s{0,9}\|\s{0,9}default\b|\s{0,9}is\b)")
_COMMAND = re.compile(r"(?<![\w.'\"])result\.data\.command_\d+\b")
_FIRST = re.compile(r"(?<![\w.'\"])result\.data\.command_[01]\b")
_COUNT = re.compile(r"(?<![\w.'\"])result\.data\.command_[01]\[0\]\.(?:count|row_count|rows_affected)\b")
_CHANGES = re.compile(r"\s*(?:insert|update|delete|merge)\b(?!.*\breturning\b)", re.IGNORECASE | re.DOTALL)
"""A change that returns no rows."""
_VALUE = re.compile(r"\{\{[^{}]*\}\}")
_ANSWERS = SQL_KINDS | {"http", "python"}


def apply(page: Page) -> None:
    """Read the result itself; of SQL with one statement, its rows as those of ``command_1``."""
    tasks = {text_of(task.get("name", "task")): task for task in page.workbook()}
    for step in page.steps():
        values = list(inside(step.get("vars") or Map([])))
        if not values or (step.has("loop") and not map_of(step.get("loop")).has("pagination")):
            continue
        task = _task_of(step, tasks)
        if kind_of(task) not in _ANSWERS:
            continue
        for entry in values:
            if isinstance(entry.value, Text) and isinstance(entry.value.value, str):
                _read(page, entry, entry.value, task)


def _read(page: Page, entry: Entry, value: Text, task: Map) -> None:
    text = str(value.value)
    if kind_of(task) not in SQL_KINDS:
        rewrite(value, in_templates(text, lambda one: _DATA.sub("(result.data | default(result))", one)))
        return
    if not gives_rows(task) or not _DATA.search(text):
        return
    statements = _statements(task)
    if _COMMAND.search(text) and len(statements) != 1:
        page.refuse(
            entry,
            "`result.data.command_N` counts the statements of SQL, from 0 or from 1",
            "write result.results[0].rows for the rows of the first statement",
        )
        return
    if statements and _CHANGES.match(statements[0]):
        text = in_templates(text, lambda one: _COUNT.sub("result.affected_rows", one))
    text = in_templates(text, lambda one: _FIRST.sub("result.rows", one))
    rewrite(value, in_templates(text, lambda one: _DATA.sub("result", one)))


def _statements(task: Map) -> list[str]:
    try:
        return [one for text in statements_of(task) for one in split(_VALUE.sub("0", str(text.value)))]
    except TemplateError:
        return []


def _task_of(step: Map, tasks: dict[str | None, Map]) -> Map:
    """Return the task of a step, which may be in the workbook; its ``kind`` is always a key."""
    tool = step.get("tool", "type")
    task = tool if isinstance(tool, Map) else Map([Entry("kind", tool), *step.entries]) if tool else Map([])
    if kind_of(task) not in ("workbook", "task"):
        return task
    found = tasks.get(text_of(task.get("name", "task") or step.get("task", "name")), Map([]))
    own = found.get("tool", "type")
    return own if isinstance(own, Map) else Map([Entry("kind", own), *found.entries]) if own else found


RULE = Rule(
    "vars-data",
    "`vars` read the result of a step itself, and of one statement its `rows`.",
    apply,
    repairs=True,
)
