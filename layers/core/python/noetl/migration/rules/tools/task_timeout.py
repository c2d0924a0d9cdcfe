"""``timeout`` beside the kind, for kinds that have no such parameter, and its other names."""

from __future__ import annotations

from noetl.formatting.nodes import Map, Text, plain
from noetl.migration.page import Page, kind_of, named
from noetl.migration.rule import Rule

_OWN = frozenset({"http", "wait"})
_NAMES = ("timeout", "timeout_seconds", "timeout_s")


def apply(page: Page) -> None:
    """Move it to ``spec``; a kind with a time-out of its own calls it ``timeout``."""
    for tool in page.tools():
        if kind_of(tool) in _OWN:
            for name in _NAMES[1:]:
                if tool.has(name) and not tool.has("timeout"):
                    tool.rename(name, "timeout")
            continue
        for name in _NAMES:
            entry = tool.entry(name)
            if entry is None or not isinstance(entry.value, Text) or plain(entry.value) is None:
                continue
            spec = tool.get("spec")
            if spec is None:
                place = tool.entries.index(entry)
                tool.entries[place] = named("spec", Map([named("timeout", entry.value)], flow=True), entry)
            elif isinstance(spec, Map) and not spec.has("timeout"):
                tool.entries.remove(entry)
                entry.key = entry.raw_key = "timeout"
                spec.entries.append(entry)


RULE = Rule("task-timeout", "The time-out of a task belongs in its `spec`.", apply)
