"""``results`` and ``stats`` of a loop step."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Map, items_of, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule
from noetl.migration.rules.paging.pages import blocks_of

_OF_A_CALL = re.compile(r"\b(?:call\.(?:done|error)|loop\.item)\b")
_ALONE = re.compile(r"\{\{ \((\w+ \| length)\) \}\}")
_COUNTS = "total|total_count|completed|count|success|successful|success_count"


def apply(page: Page) -> None:
    """Read the loop's result: it is the list itself."""
    loops = [name for step in page.steps() if (name := _loop(step)) and not replaced(step)]
    if not loops:
        return
    names = "|".join(map(re.escape, loops))
    results = re.compile(rf"(?<![\w.'\"])({names})\.results\b")
    counts = re.compile(rf"(?<![\w.'\"])({names})\.stats\.(?:{_COUNTS})\b")
    for text in page.texts():
        value = counts.sub(r"(\1 | length)", results.sub(r"\1", text.value))
        rewrite(text, _ALONE.sub(r"{{ \1 }}", value))


def _loop(step: Map) -> str | None:
    tool = step.get("tool")
    iterates = step.has("loop") or (isinstance(tool, Map) and kind_of(tool) == "iterator")
    return text_of(step.get("step")) if iterates else None


def replaced(step: Map) -> bool:
    """Return whether a ``result`` at the end of the loop takes the place of the list."""
    return any(
        not _OF_A_CALL.search(text_of(entry.get("when")) or "")
        and any(block.has("result") for block in blocks_of(entry.get("then")))
        for entry in map(map_of, items_of(step.get("case")))
    )


RULE = Rule("loop-results", "The result of a loop is the list of its iterations.", apply, repairs=True)
