"""``auth: {}`` and ``libs: {}``."""

from __future__ import annotations

from noetl.formatting.nodes import List, Map, Text
from noetl.migration.page import Page, kind_of, remove
from noetl.migration.rule import Rule

_EMPTY = ("auth", "libs", "credential", "credentials", "assert", "packages")


def apply(page: Page) -> None:
    """Remove what is empty."""
    for tool in page.tools():
        for name in _EMPTY:
            entry = tool.entry(name)
            if entry is not None and _is_empty(entry.value) and (name != "auth" or kind_of(tool)):
                remove(tool, entry)


def _is_empty(value: object) -> bool:
    if isinstance(value, (Map, List)):
        return not value.entries
    return isinstance(value, Text) and value.value in (None, "")


RULE = Rule("empty-keys", "`auth` and `libs` that are empty say nothing.", apply)
