"""``result`` or ``return`` of a step without a tool: what the playbook returns."""

from __future__ import annotations

from noetl.formatting.nodes import Map, Text
from noetl.migration.page import Page, named
from noetl.migration.rule import Rule

_OTHERS = ("tool", "type", "loop", "save", "sink")


def apply(page: Page) -> None:
    """Give the step a tool with this result."""
    for step in page.steps():
        given = [entry for name in ("result", "return") if (entry := step.entry(name)) is not None]
        if len(given) != 1 or any(step.has(name) for name in _OTHERS):
            continue
        value = given[0].value
        if isinstance(value, Map):
            made = [named("kind", Text("noop")), named("args", value)]
        elif isinstance(value, Text):
            code = named("code", Text("result = value\n", style="|"))
            made = [named("kind", Text("python")), named("args", Map([named("value", value)])), code]
        else:
            continue
        step.entries[step.entries.index(given[0])] = named("tool", Map(made), given[0])


RULE = Rule("step-result", "What a step without a tool returns is the input of a `noop`.", apply)
