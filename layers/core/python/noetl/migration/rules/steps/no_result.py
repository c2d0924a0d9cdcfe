"""Inputs that are the result of a step without a tool."""

from __future__ import annotations

import re

from noetl.formatting.nodes import text_of
from noetl.migration.page import Page, remove
from noetl.migration.rule import Rule
from noetl.migration.rules.routing.ways import ways_of

_INPUTS = ("args", "input", "with", "data")
_WORKS = ("tool", "type", "loop", "task", "case", "retry", "save", "sink", "result", "return")
_ALONE = re.compile(r"\{\{\s*(\w+)\s*\}\}\Z")


def apply(page: Page) -> None:
    """Leave them out: there is nothing in them."""
    empty = {
        name
        for step in page.steps()
        if (name := text_of(step.get("step"))) and not any(step.has(work) for work in _WORKS)
    }
    ways = [way for step in page.steps() for way in ways_of(step)]
    for owner in (*page.tools(), *page.steps(), *ways):
        for name in _INPUTS:
            entry = owner.entry(name)
            found = _ALONE.match((text_of(entry.value) or "").strip()) if entry is not None else None
            if entry is not None and found is not None and found[1] in empty:
                page.note(
                    entry, f"step '{found[1]}' has no tool and so no result: `{name}` is left out", safe=True
                )
                remove(owner, entry)


RULE = Rule("no-result", "A step without a tool has no result that could be an input.", apply, repairs=True)
