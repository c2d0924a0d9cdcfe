"""``params`` or ``parameters`` of ``postgres`` as a list, for ``$1``, ``$2`` … in the SQL."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

from noetl.domain.errors import TemplateError
from noetl.formatting.nodes import List, Text, plain
from noetl.migration.page import Page, kind_of, remove, statements_of
from noetl.migration.rule import Rule
from noetl.templating.sql_split import tokens_of

_NUMBER = re.compile(r"[1-9][0-9]{0,3}\Z")
_WHOLE = re.compile(r"\{\{[^{}]*\}\}\Z")


def apply(page: Page) -> None:
    """Write each value at its place: a template in SQL is a bound parameter."""
    for tool in page.tools():
        params = tool.entry("params") or tool.entry("parameters")
        if kind_of(tool) != "postgres" or params is None or not isinstance(params.value, List):
            continue
        values = [_template(plain(item)) for item in params.value.values()]
        texts = list(statements_of(tool))
        used = {number for text in texts for number, _, _ in _positions(str(text.value))}
        if None in values or used != set(range(1, len(values) + 1)):
            page.refuse(
                params,
                f"`{params.key}` as a list does not fit the statement",
                "write each value in the SQL as a template ({{ … }}), where it is bound",
            )
            continue
        for text in texts:
            _bind(text, [value or "" for value in values])
        remove(tool, params)


def _template(value: object) -> str | None:
    """Return a value as one template.

    None where it is neither a template as a whole nor a plain value.
    """
    if isinstance(value, str):
        if "{{" not in value and "{%" not in value and "{#" not in value:
            return f"{{{{ {value!r} }}}}"
        return value.strip() if _WHOLE.match(value.strip()) else None
    if value is None:
        return "{{ none }}"
    if isinstance(value, (bool, int, float)):
        return f"{{{{ {str(value).lower()} }}}}"
    return None


def _bind(text: Text, values: list[str]) -> None:
    """Write the values in the place of the positions."""
    sql, place, out = str(text.value), 0, []
    for number, start, end in _positions(sql):
        out += [sql[place:start], values[number - 1]]
        place = end
    text.value = "".join([*out, sql[place:]])


def _positions(sql: str) -> list[tuple[int, int, int]]:
    """Return the positions outside of texts, quoted names and comments: (number, start, end)."""
    try:
        tokens = [token.text for token in tokens_of([sql])]
    except TemplateError:
        return []
    places = [0, *accumulate(map(len, tokens))]
    return [
        (int(number), places[at], places[at + 2])
        for at, (mark, number) in enumerate(pairwise(tokens))
        if mark == "$" and _NUMBER.match(number)
    ]


RULE = Rule("sql-positions", "A value of a statement is a template in it, bound as a parameter.", apply)
