"""``case`` entries that name steps without ``next``, or have an ``else``."""

from __future__ import annotations

from noetl.formatting.nodes import Entry, List, Map, Text, Value, made, map_of, text_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Put the steps below ``next``; an ``else`` is one more entry, for the end of the step."""
    for step in page.steps():
        case = step.get("case")
        if not isinstance(case, List):
            continue
        for item in list(case.entries):
            block = map_of(item.value)
            then = block.entry("then")
            if then is not None:
                then.value = _with_next(then.value)
            other = block.take("else")
            if other is not None:
                value = other.value
                if isinstance(value, Map) and value.has("then"):
                    value = value.get("then") or value
                last = Map(
                    [
                        Entry("when", Text("{{ event.name == 'step.exit' }}", style='"'), "when"),
                        Entry("then", _with_next(value), "then", line=other.line),
                    ]
                )
                place = case.entries.index(item) + 1
                case.entries.insert(
                    place,
                    Entry(
                        None,
                        last,
                        lead=[*other.lead, *([other.trail] if other.trail else [])],
                        line=other.line,
                    ),
                )


def _with_next(then: Value) -> Value:
    if isinstance(then, Map) and then.has("step"):
        return Map([Entry("next", List([Entry(None, then, line=_line(then))]), "next", line=_line(then))])
    if isinstance(then, Text) and text_of(then):
        return made({"next": [{"step": then.value}]}, flow=False)
    if isinstance(then, List) and then.entries and all(map_of(item).has("step") for item in then.values()):
        return Map([Entry("next", then, "next", line=then.entries[0].line)])
    return then


def _line(block: Map) -> int:
    return block.entries[0].line if block.entries else 0


RULE = Rule(
    "case-targets", "An entry of `case` continues with `next`; what is left over is one more entry.", apply
)
