"""Keys of a tool that stand beside a ``tool`` mapping, or in the tool's ``spec``."""

from __future__ import annotations

from noetl.dsl.refusals import TOOL_FIELDS
from noetl.formatting.nodes import Map, text_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_SPEC = frozenset({"timeout", "long", "policy", "result"})


def apply(page: Page) -> None:
    """Move them into the tool."""
    for step in page.steps():
        tool = step.get("tool")
        if not isinstance(tool, Map) or text_of(tool.get("kind")) is None:
            continue
        for entry in list(step.entries):
            if entry.key in TOOL_FIELDS:
                if tool.has(str(entry.key)):
                    page.refuse(
                        entry, f"`{entry.key}` is written beside the tool and in it", "keep one of them"
                    )
                    continue
                step.entries.remove(entry)
                tool.entries.append(entry)
                tool.flow = False
    for tool in page.tools():
        spec = tool.get("spec")
        if not isinstance(spec, Map) or not isinstance(tool.get("kind"), object):
            continue
        for entry in list(spec.entries):
            if entry.key not in _SPEC and not tool.has(str(entry.key)):
                spec.entries.remove(entry)
                place = next(at for at, own in enumerate(tool.entries) if own.key == "spec")
                tool.entries.insert(place, entry)
        if not spec.entries:
            tool.take("spec")


RULE = Rule("tool-fields", "What a tool needs belongs below `tool`, beside its `kind`.", apply)
