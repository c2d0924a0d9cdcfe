"""``retry`` with other parameters in an entry of ``case``: the call of the next page."""

from __future__ import annotations

from noetl.formatting.nodes import Entry, List, Map, Text, Value, copied, map_of, plain, text_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule
from noetl.migration.rules.paging.pages import (
    STRATEGIES,
    blocks_of,
    bound,
    collecting,
    of_item,
    overrides_of,
    result_of,
)

_KEPT = frozenset({"next_call", "args", "call", "collect", "max_attempts", "max_iterations"})


def apply(page: Page) -> None:
    """Write ``call`` for ``retry``, bounded by its count.

    The collected pages become the step's result.
    """
    for step in page.steps():
        case = step.get("case")
        items = list(case.entries) if isinstance(case, List) else []
        pages = False
        for item in items:
            entry = map_of(item.value)
            before = copied(entry)
            called = [_call(page, entry, block) for block in blocks_of(entry.get("then"))]
            if any(called) and isinstance(case, List):
                pages = True
                _last_of_bound(case, item, map_of(before))
        entries = [map_of(item) for item in _items(step)]
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
                strategy = collect.entry("strategy")
                if strategy is not None and plain(strategy.value) not in STRATEGIES:
                    page.note(strategy, f"`{plain(strategy.value)}` is read as `extend`: pages are joined")
                collecting(collect)
            if not pages:
                continue
            if step.has("loop"):
                of_item(page, block, collect)
            if not block.has("call") and not block.has("result"):
                place = max(at for at, one in enumerate(block.entries) if one.key in ("collect", "set"))
                result = result_of(collect, "iter" if step.has("loop") else "ctx")
                if result is not None:
                    block.entries.insert(place + 1, result)


def _last_of_bound(case: List, item: Entry, before: Map) -> None:
    """Add an entry for the page at which the bound ends the calls.

    It has what is done with each page, and the next step.
    """
    if plain(map_of(item.value).get("when")) == plain(before.get("when")):
        return
    blocks = blocks_of(before.get("then"))
    for block in blocks:
        block.take("retry")
    left = [block for block in blocks if block.entries]
    if not left:
        return
    following = _way_on(case, item)
    if following is not None:
        left.append(Map([Entry("next", copied(following), "next")]))
    alone = len(left) == 1 and isinstance(before.get("then"), Map)
    then = left[0] if alone else List([Entry(None, block) for block in left])
    last = Map([Entry("when", before.get("when") or Text(None), "when"), Entry("then", then, "then")])
    case.entries.insert(case.entries.index(item) + 1, Entry(None, last, line=item.line, column=item.column))


def _way_on(case: List, item: Entry) -> Value | None:
    """Return where the entry for the last page goes."""
    for other in reversed(case.entries):
        entry = map_of(other.value)
        if other is item or "call.done" not in str(plain(entry.get("when"))):
            continue
        for block in blocks_of(entry.get("then")):
            if block.has("next") and not block.has("retry"):
                return block.get("next")
    return None


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
    left = sorted(
        {str(one.key) for one in retry.entries} - _KEPT - {str(one.key) for one in overrides.entries}
    )
    if left:
        page.note(found, f"`{left[0]}` of a `retry` that calls for the next page is left out")
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
