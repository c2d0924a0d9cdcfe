"""``output`` of the tool of a step in the event form, and ``as`` of any.

They say where the result is kept, what stays readable beside it, and its second name.
"""

from __future__ import annotations

from noetl.formatting.nodes import Map, map_of, text_of
from noetl.migration.page import Page, remove
from noetl.migration.rule import Rule

_EVENT = ("case", "vars", "sink")
_OF_RESULTS = frozenset(
    {"inline_max_bytes", "preview_max_bytes", "store", "select", "scope", "ttl", "compression"}
)
"""Keys that ``output`` of a step has, too."""


def apply(page: Page) -> None:
    """Move them to the step, which has the result that the tool gave in both forms.

    Paths of ``select`` begin at that result, in the event form at the body of an HTTP answer.
    """
    for owner in (*page.steps(), *page.tools()):
        _last(map_of(owner.get("output")))
    for step in page.steps():
        tool = map_of(step.get("tool"))
        if text_of(tool.get("as")) and tool.has("kind") and not step.has("as"):
            _move(step, tool, "as")
        entry = tool.entry("output")
        if entry is None or not isinstance(entry.value, Map) or not _is_event(step) or step.has("output"):
            continue
        keys = set(entry.value.keys())
        if keys <= _OF_RESULTS and not (step.has("loop") and "select" in keys):
            _move(step, tool, "output")


def _move(step: Map, tool: Map, name: str) -> None:
    """Move an entry of the tool behind it."""
    entry = tool.take(name)
    if entry is not None:
        step.entries.insert(step.keys().index("tool") + 1, entry)


def _last(output: Map) -> None:
    """Write ``scope: permanent`` for what never ends."""
    for block in (output, map_of(output.get("store"))):
        ttl = block.entry("ttl")
        if ttl is not None and text_of(ttl.value) == "permanent":
            if block.has("scope"):
                remove(block, ttl)
            else:
                block.rename("ttl", "scope")


def _is_event(step: Map) -> bool:
    following = step.get("next")
    return any(step.has(name) for name in _EVENT) or (
        following is not None and not (isinstance(following, Map) and not following.has("step"))
    )


RULE = Rule(
    "tool-output",
    "`output` of a step in the event form, and `as`, belong to the step.",
    apply,
)
