"""SQL that doubles the quotes of its values by hand, and code that does it for SQL."""

from __future__ import annotations

import re

from noetl.dsl.lints.escapes import DOUBLING, doublings, fits
from noetl.formatting.nodes import Entry, Map, Text, inside, text_of
from noetl.formatting.spelling import rewrite
from noetl.formatting.templates import names_in
from noetl.migration.page import RAW, Page, kind_of
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.rows_list import tasks_of

_READ = re.compile(r"(?<![\w.'\"])(\w+)\.(\w+)")
_NESTED = re.compile(r"''\s{0,9}\{\{")
"""A value in SQL that is a text of SQL itself, or one between two of its quotes."""
_RESULTS = frozenset({"result", "output", "outcome", "this", "response"})


def apply(page: Page) -> None:
    """Leave the doubling out where the value is between quotes: it becomes a parameter."""
    for text in page.sql_texts():
        sql = text.value
        for found in reversed(page.kinds.sql_escapes(sql)):
            if found.quoted and not found.through:
                sql = sql[: found.start].rstrip() + sql[found.end :]
        rewrite(text, sql)
    for step in page.steps():
        tasks = tasks_of(step.get("tool"))
        for place, (label, task) in enumerate(tasks):
            code = task.get("code")
            if kind_of(task) == "python" and isinstance(code, Text) and DOUBLING.search(text_of(code) or ""):
                last = place + 1 == len(tasks)
                _in_code(
                    page,
                    step,
                    code,
                    {label or "_prev", "_prev"} | ({text_of(step.get("step")) or ""} if last else set()),
                )


def _in_code(page: Page, step: Map, code: Text, names: set[str]) -> None:
    """Leave the doubling out of code where nothing but SQL reads what it returns."""
    text = str(code.value)
    makes_sql, found = doublings(text)
    if makes_sql or not found or len(found) != len(DOUBLING.findall(text)):
        return
    sql = {id(one) for one in page.sql_texts()}
    read = [one for one in page.texts() if names & names_in(one.value)]
    if not read or any(
        id(one) not in sql or "raw_sql" in one.value or _NESTED.search(one.value) for one in read
    ):
        return
    if any(_RESULTS & names_in(one.value) for one in _texts_of(step)) or _is_named(page, code, names):
        return
    entries = {hit[2] for one in read for hit in _READ.finditer(one.value) if hit[1] in names}
    if all(any(fits(key, entry) for entry in entries) for _, key in found):
        rewrite(code, DOUBLING.sub("", text))


def _texts_of(step: Map) -> list[Text]:
    return [
        one.value
        for one in inside(step)
        if isinstance(one.value, Text) and one.key not in RAW and isinstance(one.value.value, str)
    ]


def _is_named(page: Page, code: Text, names: set[str]) -> bool:
    """Return whether other code may read the result."""
    others: list[Entry] = [one for one in inside(page.root) if one.key in RAW and one.value is not code]
    return any(name in (text_of(one.value) or "") for one in others for name in {*names, "context"})


RULE = Rule("sql-quotes", "A value between quotes is a parameter, so its own quotes stay single.", apply)
