"""``save``, as ``sink`` was called."""

from __future__ import annotations

from noetl.formatting.nodes import Map, text_of
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Call it ``sink``, and its storage ``tool``."""
    for one in page.maps():
        entry = one.entry("save")
        tool = one.get("tool")
        loops = one.has("loop") or (isinstance(tool, Map) and kind_of(tool) == "iterator")
        if entry is not None and one.has("step") and loops:
            page.refuse(
                entry,
                "`save` of a loop was done once, a sink is once per iteration",
                "write what is saved in a step after it",
            )
            continue
        if entry is None or not isinstance(entry.value, Map) or one.has("sink") or one.has("kind"):
            continue
        block = entry.value
        storage = block.get("storage", "type")
        if isinstance(storage, Map):
            kind = storage.get("type", "kind")
            storage_entry = block.entry("storage")
            if storage_entry is not None and kind is not None:
                storage_entry.value = kind
                block.entries += [inner for inner in storage.entries if inner.key not in ("type", "kind")]
        for name in ("storage", "type"):
            if text_of(block.get(name)) is not None and not block.has("tool"):
                block.rename(name, "tool")
        if block.has("tool") or block.has("kind"):
            one.rename("save", "sink")


RULE = Rule("save-block", "What a step writes to another system is its `sink`.", apply)
