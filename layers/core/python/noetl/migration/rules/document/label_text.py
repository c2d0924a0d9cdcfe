"""Labels that are true, false or null."""

from __future__ import annotations

from noetl.formatting.nodes import Text, map_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Write them as texts: a label is compared with a text."""
    for entry in map_of(map_of(page.root.get("metadata")).get("labels")).entries:
        value = entry.value
        if isinstance(value, Text) and (value.value is None or isinstance(value.value, bool)):
            entry.value = Text("" if value.value is None else "true" if value.value else "false", style='"')


RULE = Rule("label-text", "A label is a text.", apply)
