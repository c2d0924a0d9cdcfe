"""Sinks whose tool is a word, with its keys beside it."""

from __future__ import annotations

from noetl.formatting.nodes import Entry, Map, Text, map_of, text_of
from noetl.migration.page import Page, kind_of, named
from noetl.migration.rule import Rule

_SINK = frozenset({"tool", "when", "args"})
_BODY = frozenset({"http", "s3", "gcs", "artifact", "lambda"})
"""Kinds with a parameter ``data``."""


def apply(page: Page) -> None:
    """Make a mapping of the tool; what it writes moves to ``args``."""
    for one in page.maps():
        sink = one.get("sink")
        if not isinstance(sink, Map):
            continue
        _gather(sink)
        tool = map_of(sink.get("tool"))
        if kind_of(tool) not in _BODY:
            for owner in (sink, tool):
                data = owner.entry("data")
                if data is not None and not sink.has("args") and not tool.has("args"):
                    owner.entries.remove(data)
                    sink.entries.append(named("args", data.value, data))


def _gather(sink: Map) -> None:
    head = sink.entry("tool") or sink.entry("kind")
    kind = text_of(head.value) if head is not None else None
    if head is None:
        return
    if kind is None and not (isinstance(head.value, Map) and head.value.has("kind")):
        return
    keys = [
        entry
        for entry in sink.entries
        if entry.key not in _SINK and entry is not head and entry.key != "data"
    ]
    if kind is None:
        tool = map_of(head.value)
        keys = [entry for entry in keys if entry.key != "table" and not tool.has(str(entry.key))]
        tool.entries += keys
    else:
        block = Map([Entry("kind", Text(kind), "kind", line=head.line, column=head.column), *keys])
        sink.entries[sink.entries.index(head)] = named("tool", block, head)
    sink.entries[:] = [entry for entry in sink.entries if entry not in keys]


RULE = Rule("sink-tool", "The tool of a sink is a mapping; what it writes belongs in `args`.", apply)
