"""``output_select``: names that stay beside a large result."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, List, Map, Text, Value, made, plain
from noetl.migration.page import Page, named
from noetl.migration.rule import Rule

_NAME = re.compile(r"[A-Za-z_]\w*\Z")


def apply(page: Page) -> None:
    """Write ``spec.result.select`` of the tool; under ``output`` it is ``select``."""
    owners = (*page.tools(), *page.steps())
    outputs = [output for owner in owners if isinstance(output := owner.get("output"), Map)]
    for owner in (*owners, *outputs):
        entry = owner.entry("output_select")
        if entry is None:
            continue
        if isinstance(entry.value, Map) and owner not in outputs:
            _threshold(page, owner, entry, entry.value)
            continue
        paths = plain(entry.value)
        if not isinstance(entry.value, List) or not all(isinstance(path, str) for path in paths):
            page.refuse(
                entry,
                "`output_select` is a list of names",
                "write spec: { result: { select: [{ path: …, as: … }] } }",
            )
            continue
        select = made(
            [{"path": path if path.startswith("$") else f"$.{path}", "as": _name(path)} for path in paths]
        )
        if owner in outputs:
            owner.entries[owner.entries.index(entry)] = named("select", select, entry)
        else:
            _put(owner, entry, "select", select)


def _threshold(page: Page, owner: Map, entry: Entry, block: Map) -> None:
    """Write the size up to which a result is part of the event."""
    size = plain(block.get("threshold_kb"))
    if (
        plain(block.get("strategy")) != "size_threshold"
        or not isinstance(size, int)
        or isinstance(size, bool)
    ):
        page.refuse(
            entry, "this `output_select` is not known", "write spec: { result: { inline_max_bytes: … } }"
        )
        return
    _put(owner, entry, "inline_max_bytes", Text(size * 1024))


def _put(owner: Map, entry: Entry, name: str, value: Value) -> None:
    """Put a wish into ``spec.result``, in the place of an entry."""
    spec = owner.get("spec")
    if spec is None:
        place = owner.entries.index(entry)
        spec = Map([])
        owner.entries[place] = Entry(
            "spec", spec, "spec", entry.lead, entry.trail, entry.after, entry.gap, entry.line
        )
    else:
        owner.entries.remove(entry)
    assert isinstance(spec, Map)
    result = spec.get("result")
    if result is None:
        result = Map([])
        spec.entries.append(Entry("result", result, "result", line=entry.line))
    if isinstance(result, Map) and not result.has(name):
        result.entries.append(Entry(name, value, name, line=entry.line))


def _name(path: str) -> str:
    last = path.split(".")[-1].split("[")[0]
    return last if _NAME.match(last) else "value"


RULE = Rule("output-select", "What stays beside a large result is `spec.result.select`.", apply)
