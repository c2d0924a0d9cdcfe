"""``retry`` with other parameters in an entry of ``case``: the call of the next page."""

from __future__ import annotations

from noetl.formatting.nodes import Entry, List, Map, Text, Value, map_of, text_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule
from noetl.migration.rules.paging.pages import blocks_of, bound, collecting, overrides_of, result_of


def apply(page: Page) -> None:
    """Write ``call`` for ``retry``, bounded by its count, and make the collected pages the step's result."""
    for step in page.steps():
        entries = [map_of(item) for item in _items(step)]
        pages = False
        for entry in entries:
            for block in blocks_of(entry.get("then")):
                pages = _call(page, entry, block) or pages
        collects = [
            (block, collect)
            for entry in entries
            for block in blocks_of(entry.get("then"))
            if isinstance(collect := block.get("collect"), Map)
        ]
        if pages:
            for _, collect in collects:
                _named(collect, text_of(step.get("step")) or "pages")
        for block, collect in collects:
            bare = collect.has("strategy") and not str(text_of(collect.get("path")) or "$").startswith("$")
            if pages or bare:
                collecting(collect)
            if pages and not block.has("call") and not block.has("result"):
                place = next(at for at, one in enumerate(block.entries) if one.key == "collect")
                result = result_of(collect)
                if result is not None:
                    block.entries.insert(place + 1, result)


def _items(step: Map) -> list[Value]:
    case = step.get("case")
    return case.values() if isinstance(case, List) else []


def _call(page: Page, entry: Map, block: Map) -> bool:
    found = block.entry("retry")
    if found is None or not isinstance(found.value, Map):
        return False
    retry = found.value
    overrides = overrides_of(retry)
    guard = entry.entry("when")
    if overrides is None or guard is None:
        return False
    collect = retry.entry("collect")
    counted = Map([])
    if not bound(guard, retry, counted):
        page.refuse(
            found,
            "`retry` with other parameters needs a guard that is one expression",
            'write when: "{{ … }}"',
        )
        return False
    place = block.entries.index(found)
    call = Entry(
        "call", overrides, "call", found.lead, found.trail, found.after, found.gap, found.line, found.column
    )
    block.entries[place : place + 1] = [*([collect] if collect else []), *counted.entries, call]
    return True


def _named(collect: Map, step: str) -> None:
    if not collect.has("into"):
        collect.entries.append(Entry("into", Text(f"{step}_pages"), "into"))


RULE = Rule(
    "retry-pages", "The next page is a `call` with other parameters; a `retry` repeats the same call.", apply
)
