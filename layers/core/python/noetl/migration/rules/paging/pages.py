"""Entries of a ``case`` that read one page and call for the next."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, List, Map, Text, made, map_of, plain
from noetl.formatting.templates import names_in
from noetl.migration.guards import both, inner
from noetl.migration.page import Page, named, remove

_NAME = re.compile(r"[\w.]+")
COUNT = "calls"
"""Name of the count of calls in ``iter``."""
_OVERRIDES = (
    "params",
    "url",
    "endpoint",
    "headers",
    "payload",
    "body",
    "json",
    "data",
    "query",
    "command",
    "method",
)
STRATEGIES = {
    "append": "extend",
    "extend": "extend",
    "collect": "append",
    "replace": "replace",
    "merge": "merge",
}


def overrides_of(retry: Map) -> Map | None:
    """Return what the next call has other than the last one.

    None: it is a retry of the same call.
    """
    for name in ("next_call", "args", "call"):
        found = retry.get(name)
        if isinstance(found, Map):
            return found
    given = [entry for entry in retry.entries if entry.key in _OVERRIDES]
    return Map(given) if given else None


def bound(guard: Entry, retry: Map, into: Map) -> bool:
    """Count the calls, and let the guard end them at ``max_attempts``.

    Return False when the guard is no single expression.
    """
    most = plain(retry.get("max_attempts", "max_iterations"))
    if most is None:
        return True
    condition = inner(plain(guard.value))
    if condition is None:
        return False
    limit = inner(most) or str(most)
    count = f"iter.{COUNT} | default(1)"
    guard.value = Text(both(condition, f"({count}) < {limit}"))
    into.entries.append(Entry("set", made({"iter": {COUNT: f"{{{{ ({count}) + 1 }}}}"}}), "set"))
    return True


def collecting(collect: Map) -> None:
    """Write ``collect`` in today's words: ``path`` from the answer, ``mode`` for ``strategy``."""
    strategy = collect.entry("strategy")
    path = collect.entry("path")
    if path is None or strategy is None:
        return
    text = str(plain(path.value) or "")
    if text and not text.startswith("$") and "{{" not in text:
        path.value = Text(f"$.{text.removeprefix('response.')}")
    strategy.key = strategy.raw_key = "mode"
    strategy.value = Text(STRATEGIES.get(str(plain(strategy.value)), "extend"))


def result_of(collect: Map, scope: str) -> Entry | None:
    """Return the action that makes the collected pages the result of step or item."""
    into = plain(collect.get("into"))
    return Entry("result", Text(f"{{{{ {scope}.{into} }}}}", style='"'), "result") if into else None


def of_item(page: Page, block: Map, collect: Map) -> None:
    """Collect the pages of a loop's item in ``iter``: ``ctx`` has those of all items.

    They are collected in ``ctx``, too, where something reads them there.
    """
    entry = block.entry("collect")
    into, pages = str(plain(collect.get("into"))), gathered(collect)
    if entry is None:
        return
    if pages is None:
        page.refuse(
            entry, "the pages of an item cannot be kept apart from those of the others", "collect a list"
        )
        return
    read = any(_reads(text.value, into) for text in page.texts())
    known = block.entry("set")
    gathering = Entry(into, Text(f"{{{{ {pages} }}}}", style='"'), into)
    if known is not None and isinstance(given := map_of(known.value).get("iter"), Map):
        given.entries.append(gathering)
    else:
        setting = Map([Entry("iter", Map([gathering], flow=True), "iter")], flow=True)
        place = block.entries.index(entry)
        block.entries.insert(place + 1, named("set", setting))
    if not read:
        remove(block, entry)


def _reads(text: object, into: str) -> bool:
    return isinstance(text, str) and bool(
        into in names_in(text) or re.search(rf"\bctx\.{re.escape(into)}\b", text)
    )


def gathered(collect: Map) -> str | None:
    """Return what the pages are with one more; None where they are no list."""
    into, mode = plain(collect.get("into")), plain(collect.get("mode")) or "append"
    path = str(plain(collect.get("path", "from")) or "")
    page = inner(path) or (f"response{path[1:]}" if path.startswith("$") else path)
    before = f"(iter.{into} | default([]))"
    shapes = {
        "append": f"{before} + [{page}]",
        "extend": f"{before} + {page if _NAME.fullmatch(page) else f'({page})'}",
        "replace": page,
    }
    return shapes.get(str(mode)) if path else None


def blocks_of(then: object) -> list[Map]:
    """Return the mappings of actions of a ``then``."""
    if isinstance(then, List):
        return [map_of(item) for item in then.values()]
    return [then] if isinstance(then, Map) else []
