"""``set`` as a list of ``{name, value}``."""

from __future__ import annotations

from noetl.dsl.lowering.values import SCOPES
from noetl.formatting.nodes import Entry, List, Map, Text, map_of, text_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Make a mapping of it. A name without a scope was a variable, read as ``vars.x``."""
    for one in page.maps():
        for entry in one.entries:
            if entry.key in ("set", "set_ctx", "set_iter", "vars") and isinstance(entry.value, List):
                made = [line for item in entry.value.entries for line in _lines(item)]
                if made:
                    entry.value = Map(made)


def _lines(item: Entry) -> list[Entry]:
    block = map_of(item.value)
    name = next((text_of(block.get(key)) for key in ("name", "key", "var") if block.has(key)), None)
    if name is None:
        return [_placed(entry, item) for entry in block.entries]
    name = name if name.partition(".")[0] in SCOPES else f"vars.{name}"
    return [_placed(Entry(name, block.get("value") or Text(None), name), item)]


def _placed(entry: Entry, item: Entry) -> Entry:
    entry.lead = [*item.lead, *entry.lead]
    entry.trail = entry.trail or item.trail
    entry.line, entry.column = entry.line or item.line, entry.column or item.column
    return entry


RULE = Rule("set-list", "`set` is a mapping: each name once.", apply)
