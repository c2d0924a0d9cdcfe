"""``else: { do: … }`` without ``then``, in rules of a policy."""

from __future__ import annotations

from noetl.formatting.nodes import Entry, List, Map, map_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Put what is done below ``then``."""
    for one in page.maps():
        rules = one.get("rules")
        if not isinstance(rules, List):
            continue
        for item in rules.entries:
            for entry in map_of(item.value).entries:
                block = entry.value
                if entry.key == "else" and isinstance(block, Map) and block.entries and not block.has("then"):
                    entry.value = Map([Entry("then", block, "then", line=block.entries[0].line)], block.flow)


RULE = Rule("rule-else", "What a rule does belongs below `then`, also for `else`.", apply)
