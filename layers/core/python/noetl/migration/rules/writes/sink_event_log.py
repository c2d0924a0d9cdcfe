"""Sinks into the event log."""

from __future__ import annotations

from noetl.formatting.nodes import List, Map, map_of, text_of
from noetl.migration.page import Page, kind_of, remove
from noetl.migration.rule import Rule

_LOGS = frozenset({"event", "event_log", "events", "log"})


def apply(page: Page) -> None:
    """Remove them: every result is in the event log already."""
    for step in page.steps():
        _remove(page, step)
        case = step.entry("case")
        if case is None or not isinstance(case.value, List):
            continue
        for entry in list(case.value.entries):
            block = map_of(entry.value)
            then = block.entry("then")
            if then is None:
                continue
            if isinstance(then.value, List):
                for item in list(then.value.entries):
                    if _remove(page, map_of(item.value)) and not map_of(item.value).entries:
                        remove(then.value, item)
            else:
                _remove(page, map_of(then.value))
            if isinstance(then.value, (Map, List)) and not then.value.entries:
                remove(case.value, entry)
        if not case.value.entries:
            remove(step, case)


def _remove(page: Page, owner: Map) -> bool:
    entry = owner.entry("sink")
    if entry is None:
        return False
    tool = map_of(entry.value).get("tool")
    kind = text_of(tool) or kind_of(map_of(tool))
    if kind not in _LOGS:
        return False
    remove(owner, entry)
    page.note(
        entry,
        "the sink into the event log is left out: the result of every step is in the history",
        safe=True,
    )
    return True


RULE = Rule(
    "sink-event-log", "Every result is in the history: a sink into the event log writes nothing new.", apply
)
