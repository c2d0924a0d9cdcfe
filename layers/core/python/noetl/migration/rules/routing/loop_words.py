"""Keys of a loop that say nothing here: ``distribution``."""

from __future__ import annotations

from noetl.formatting.nodes import Map
from noetl.migration.page import Page, remove
from noetl.migration.rule import Rule

_GONE = ("distribution",)


def apply(page: Page) -> None:
    """Leave them out: any worker may take an item, results keep the order of the list."""
    for owner in page.maps():
        loop = owner.get("loop")
        for name in _GONE:
            entry = loop.entry(name) if isinstance(loop, Map) else None
            if entry is not None and isinstance(loop, Map):
                page.note(
                    entry,
                    f"`{name}` of a loop is left out: `mode: parallel` lets items run at once",
                    safe=True,
                )
                remove(loop, entry)


RULE = Rule("loop-words", "A loop needs no word for where its items run.", apply)
