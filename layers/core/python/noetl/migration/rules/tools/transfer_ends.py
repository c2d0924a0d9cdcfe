"""Ends of a ``transfer`` that name their kind by ``tool`` or ``type``.

Its old settings belong here, too.
"""

from __future__ import annotations

from noetl.formatting.nodes import Map, map_of, text_of
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_MODES = {
    "insert": "append",
    "append": "append",
    "overwrite": "replace",
    "replace": "replace",
    "upsert": "upsert",
}


def apply(page: Page) -> None:
    """Name the kind ``kind``; rows at once and the way to write are settings of the transfer."""
    for tool in page.tools():
        if kind_of(tool) != "transfer":
            continue
        for end in ("source", "target"):
            block = tool.get(end)
            if isinstance(block, Map):
                for name in ("tool", "type"):
                    if text_of(block.get(name)) is not None and not block.has("kind"):
                        block.rename(name, "kind")
                if block.has("command") and not block.has("query"):
                    block.rename("command", "query")
        if tool.has("chunk_size") and not tool.has("chunk_rows"):
            tool.rename("chunk_size", "chunk_rows")
        target = tool.get("target")
        _move_mapping(tool)
        if isinstance(target, Map) and not target.has("mapping"):
            for name in ("mode", "key"):
                entry = target.entry(name)
                if entry is not None and not tool.has(name):
                    target.entries.remove(entry)
                    tool.entries.append(entry)
        mode = tool.entry("mode")
        word = text_of(mode.value) if mode is not None else None
        if mode is not None and word in _MODES and _MODES[word] != word:
            mode.value.value, mode.value.raw = _MODES[word], None  # type: ignore[union-attr]
        if isinstance(target, Map) and target.has("query") and not target.has("table"):
            entry = target.entry("query")
            assert entry is not None
            page.refuse(
                entry,
                "a transfer writes to a table, not by a statement of its own",
                "write target: { table: …, … } with `mode: upsert` and `key`",
            )


def _move_mapping(tool: Map) -> None:
    """Move the columns of a transfer from http into its target."""
    columns, target = tool.entry("mapping"), tool.get("target")
    if columns is None or not isinstance(target, Map) or target.has("mapping"):
        return
    if kind_of(map_of(tool.get("source"))) == "http":
        tool.entries.remove(columns)
        target.entries.append(columns)
        target.flow = False


RULE = Rule(
    "transfer-ends", "Source and target of a transfer have a `kind`; how to write is its `mode`.", apply
)
