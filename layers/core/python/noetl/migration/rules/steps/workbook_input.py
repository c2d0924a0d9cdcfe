"""Inputs of a workbook task that read what the call of the task has under another name."""

from __future__ import annotations

import json

from noetl.formatting.nodes import Entry, Map, Text, Value, map_of, plain, text_of
from noetl.formatting.templates import NoSpellingError, expression_of, names_in, substitute
from noetl.migration.page import Page, kind_of, remove
from noetl.migration.rule import Rule

_INPUTS = ("input", "args", "with")


def apply(page: Page) -> None:
    """Move such an entry to the calls, which have the value."""
    calls: dict[str, list[Map]] = {}
    for tool in page.tools():
        name = text_of(tool.get("name", "task"))
        if kind_of(tool) == "workbook" and name is not None:
            calls.setdefault(name, []).append(tool)
    for task in page.workbook():
        given = [_input_of(call) for call in calls.get(text_of(task.get("name", "task")) or "", ())]
        own = _input_of(map_of(task.get("tool")))
        for entry in list(own.entries):
            if given:
                _move(entry, own, given)


def _input_of(tool: Map) -> Map:
    return next((found for name in _INPUTS if isinstance(found := tool.get(name), Map)), Map([]))


def _move(entry: Entry, own: Map, given: list[Map]) -> None:
    """Write the entry into every call, with the values that the call has for its names."""
    key, text = str(entry.key), text_of(entry.value)
    names = [names_in(text) & set(call.keys()) - {key} for call in given]
    if text is None or expression_of(text) is None or not all(names) or len(set(names)) > 1:
        return
    values = [_value(text, call) for call in given]
    if None in values or any(call.has(key) for call in given):
        return
    for call, value in zip(given, values, strict=True):
        call.entries.append(Entry(key, Text(value, style='"'), key))
    remove(own, entry)


def _value(text: str, call: Map) -> str | None:
    """Return the template in the words of the call; None where it has no words for it."""
    values = {str(entry.key): _expression(entry.value) for entry in call.entries}
    names = names_in(text) & set(values)
    if any(values[name] is None for name in names):
        return None
    try:
        return substitute(text, lambda name, _: (str(values[name]), False) if name in names else None)
    except NoSpellingError:
        return None


def _expression(value: Value) -> str | None:
    """Return a value as an expression."""
    text = text_of(value)
    if text is None:
        known = plain(value)
        return json.dumps(known) if isinstance(known, (bool, int, float)) else None
    if "{{" not in text and "{%" not in text:
        return json.dumps(text) if text.isascii() and "\\" not in text and '"' not in text else None
    inner = expression_of(text)
    return inner if inner is None or inner.replace(".", "").replace("_", "").isalnum() else f"({inner})"


RULE = Rule("workbook-input", "What a call has under another name is part of the call.", apply)
