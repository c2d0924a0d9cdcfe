"""Ways out of a step while it is rewritten."""

from __future__ import annotations

from noetl.formatting.nodes import Entry, List, Map, Value, items_of, map_of
from noetl.migration.rules.paging.pages import blocks_of


def ways_of(step: Map) -> list[Map]:
    """Return all that leads from a step to another, each as a mapping with ``step``."""
    entries = cases_of(step)
    calls = [
        map_of(block.get("call")) for entry in entries for block in blocks_of(map_of(entry.value).get("then"))
    ]
    nexts = [target for entry in entries for target in nexts_of(entry)]
    return [*nexts, *(call for call in calls if call.has("step")), *targets_of(step.get("next"))]


def cases_of(step: Map) -> list[Entry]:
    case = step.get("case")
    return [entry for entry in case.entries if isinstance(entry.value, Map)] if isinstance(case, List) else []


def nexts_of(entry: Entry) -> list[Map]:
    """Return the targets of ``next`` of an entry, each as a mapping."""
    return [
        target
        for block in blocks_of(map_of(entry.value).get("then"))
        for target in targets_of(block.get("next"))
    ]


def targets_of(following: Value | None) -> list[Map]:
    values = items_of(following) if isinstance(following, List) else [following]
    found = [
        value if isinstance(value, Map) else Map([Entry("step", value, "step")]) for value in values if value
    ]
    arcs = [target for one in found for target in items_of(one.get("arcs"))]
    return [map_of(one) for one in arcs] or [one for one in found if one.has("step")]
