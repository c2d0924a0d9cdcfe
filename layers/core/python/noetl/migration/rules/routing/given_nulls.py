"""Null in the ``args`` of a tool, for an argument of the step."""

from __future__ import annotations

from collections import defaultdict

from noetl.formatting.nodes import Map, Text, map_of, plain, text_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule
from noetl.migration.rules.routing.ways import ways_of

_GIVEN = ("args", "input")


def apply(page: Page) -> None:
    """Read the argument, where every way to the step has one."""
    led: dict[str | None, list[set[str]]] = defaultdict(list)
    for way in (way for step in page.steps() for way in ways_of(step)):
        led[text_of(way.get("step"))].append(_names(way))
    for step in page.steps():
        ways = led.get(text_of(step.get("step")))
        given = set.intersection(*ways) if ways else set()
        tool = map_of(step.get("tool"))
        for name in _GIVEN:
            for entry in map_of(tool.get(name)).entries:
                if entry.key in given and isinstance(entry.value, Text) and plain(entry.value) is None:
                    entry.value = Text(f"{{{{ args.{entry.key} }}}}", style='"')


def _names(way: Map) -> set[str]:
    return {str(entry.key) for name in _GIVEN for entry in map_of(way.get(name)).entries}


RULE = Rule("given-nulls", "An argument of a step is read by its name.", apply)
