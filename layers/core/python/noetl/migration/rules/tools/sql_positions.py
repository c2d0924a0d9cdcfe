"""``params`` of ``postgres`` as a list, for ``$1``, ``$2`` … in the SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.formatting.nodes import List, Map, Text, items_of, plain
from noetl.migration.page import QUERIES, Page, kind_of, remove
from noetl.migration.rule import Rule

_POSITION = re.compile(r"\$([1-9][0-9]{0,3})(?!\w)")
_TAG = re.compile(r"\$(?:[A-Za-z_]\w*)?\$")
_WHOLE = re.compile(r"\{\{[^{}]*\}\}\Z")


def apply(page: Page) -> None:
    """Write each value at its place: a template in SQL is a bound parameter."""
    for tool in page.tools():
        params = tool.entry("params")
        if kind_of(tool) != "postgres" or params is None or not isinstance(params.value, List):
            continue
        values = [_template(plain(item)) for item in params.value.values()]
        texts = _statements(tool)
        used = {int(found[1]) for text in texts for found in _positions(str(text.value))}
        if None in values or used != set(range(1, len(values) + 1)):
            page.refuse(
                params,
                "`params` as a list does not fit the statement",
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


def _statements(tool: Map) -> list[Text]:
    found = [value for name in QUERIES for value in (tool.get(name), *items_of(tool.get(name)))]
    return [text for text in found if isinstance(text, Text) and isinstance(text.value, str)]


def _bind(text: Text, values: list[str]) -> None:
    sql, place, out = str(text.value), 0, []
    for found in _positions(sql):
        out += [sql[place : found.start()], values[int(found[1]) - 1]]
        place = found.end()
    text.value = "".join([*out, sql[place:]])


def _positions(sql: str) -> Iterator[re.Match[str]]:
    """Yield the positions outside of texts, quoted names and comments."""
    place = 0
    while place < len(sql):
        char = sql[place]
        if char in "'\"":
            place = _behind(sql, char, place + 1)
        elif sql.startswith("--", place):
            place = _behind(sql, "\n", place)
        elif sql.startswith("/*", place):
            place = _behind(sql, "*/", place + 2)
        elif char == "$" and not (place and (sql[place - 1].isalnum() or sql[place - 1] == "_")):
            position, tag = _POSITION.match(sql, place), _TAG.match(sql, place)
            if position is not None:
                yield position
                place = position.end()
            elif tag is not None:
                place = _behind(sql, tag[0], tag.end())
            else:
                place += 1
        else:
            place += 1


def _behind(sql: str, mark: str, start: int) -> int:
    found = sql.find(mark, start)
    return len(sql) if found < 0 else found + len(mark)


RULE = Rule("sql-positions", "A value of a statement is a template in it, bound as a parameter.", apply)
