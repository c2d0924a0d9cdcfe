"""Tasks of a ``case`` whose tool is one level too deep: ``- save: { tool: { kind: … } }``."""

from __future__ import annotations

from noetl.dsl.model.event import ACTIONS
from noetl.formatting.nodes import List, Map, map_of, text_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Put kind and keys directly below the label."""
    for case in page.case_entries():
        then = case.get("then")
        for block in [map_of(item) for item in then.values()] if isinstance(then, List) else []:
            for entry in block.entries:
                task = entry.value
                if entry.key in ACTIONS or not isinstance(task, Map) or len(block.entries) != 1:
                    continue
                tool = task.get("tool")
                if isinstance(tool, Map) and text_of(tool.get("kind")) is not None and not task.has("kind"):
                    beside = [one for one in task.entries if one.key != "tool" and not tool.has(str(one.key))]
                    entry.value = Map([*tool.entries, *beside], tool.flow)


RULE = Rule("case-tasks", "A task of a `case` is its label and its tool.", apply)
