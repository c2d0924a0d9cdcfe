"""``save``, as ``sink`` was called."""

from __future__ import annotations

import re

from noetl.dsl.shapes_in_code import is_parameter
from noetl.formatting.nodes import Entry, Map, Text, copied, map_of, text_of
from noetl.migration.page import QUERIES, Page, kind_of
from noetl.migration.rule import Rule

_TARGET = re.compile(r"(?<![\w.'\"])(\w+)\.(?:data\.)?(?:saved|table)\b")
"""The name of a step of which the storage or the table is read."""
_READS_PARAMS = re.compile(r"\{\{[^{}]*\bparams\.")


def apply(page: Page) -> None:
    """Call it ``sink``, and its storage ``tool``."""
    for step in page.steps():
        tool = step.get("tool")
        if isinstance(tool, Map) and kind_of(tool) == "save":
            _gather(step, tool)
            _name_target(page, step, tool)
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
        if not block.has("data") and not block.has("args") and _READS_PARAMS.search(_statement(block)):
            block.rename("params", "data")
        storage = block.get("storage", "type")
        if isinstance(storage, Map):
            kind = storage.get("type", "kind")
            storage_entry = block.entry("storage")
            if storage_entry is not None and kind is not None:
                storage_entry.value = kind
                block.entries += [inner for inner in storage.entries if inner.key not in ("type", "kind")]
        _hand_over(block, text_of(block.get("storage", "type")))
        for name in ("storage", "type"):
            if text_of(block.get(name)) is not None and not block.has("tool"):
                block.rename(name, "tool")
        if block.has("tool") or block.has("kind"):
            one.rename("save", "sink")


def _hand_over(block: Map, kind: str | None) -> None:
    """Hand what is written to code as ``data``, where that is a parameter."""
    if kind != "python" or not is_parameter(text_of(block.get("code")) or "", "data"):
        return
    written = block.entry("data") or block.entry("args") or block.entry("params")
    value = written.value if written is not None else Map([], flow=True)
    given = Map([Entry("data", value, "data")], flow=not isinstance(value, Map) or value.flow)
    if written is None:
        block.entries.append(Entry("args", given, "args"))
    else:
        written.key, written.raw_key, written.value = "args", "args", given


def _statement(block: Map) -> str:
    return next((text for name in (*QUERIES, "statement") if (text := text_of(block.get(name)))), "")


def _gather(step: Map, tool: Map) -> None:
    """Make a block of the keys that were beside ``type: save``."""
    keys = [entry for entry in tool.entries if entry.key != "kind"]
    if (not tool.has("storage") and not tool.has("table")) or step.has("save") or step.has("sink"):
        return
    tool.entries[:] = [entry for entry in tool.entries if entry not in keys]
    first = keys[0]
    block = Entry("save", Map(keys), "save", line=first.line, column=first.column)
    step.entries.insert(step.entries.index(step.entry("tool")) + 1, block)  # type: ignore[arg-type]


def _name_target(page: Page, step: Map, tool: Map) -> None:
    """Make the result that others read: the storage and the table."""
    name = text_of(step.get("step"))
    if not any(name in _TARGET.findall(text.value or "") for text in page.texts()):
        return
    block = map_of(step.get("save"))
    storage = block.get("storage", "type", "tool")
    kind = text_of(storage.get("type", "kind") if isinstance(storage, Map) else storage)
    table = block.get("table") or map_of(storage).get("table")
    target = [Entry("saved", Text(kind), "saved")] if kind else []
    target += [Entry("table", copied(table), "table")] if table is not None else []
    if target:
        tool.entries.append(Entry("args", Map(target, flow=True), "args"))


RULE = Rule("save-block", "What a step writes to another system is its `sink`.", apply)
