"""``type`` as the name of a kind, in tasks and tools."""

from __future__ import annotations

from noetl.formatting.nodes import List, Map, text_of
from noetl.formatting.order import tasks_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Call it ``kind``."""
    for one in page.maps():
        for name in ("tool", "task"):
            tool = one.get(name)
            if isinstance(tool, (Map, List)):
                for task in tasks_of(tool):
                    if (
                        text_of(task.get("type")) is not None
                        and not task.has("kind")
                        and not task.has("tool")
                    ):
                        task.rename("type", "kind")


RULE = Rule("task-type", "The kind of a tool is called `kind`.", apply)
