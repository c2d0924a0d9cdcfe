"""``retry`` of a step as a list of entries or by outcome, and ``loop.pagination``."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, List, Map, Text, made, map_of, plain, text_of
from noetl.migration.guards import both, inner
from noetl.migration.page import Page, remove
from noetl.migration.rule import Rule
from noetl.migration.rules.paging.pages import overrides_of

_PAGING = frozenset(
    {
        *("type", "continue_while", "next_page", "retry", "merge_path", "merge_strategy"),
        *("max_iterations", "max_pages"),
    }
)
_OUTCOMES = ("on_error", "on_success")
_FAILED = "{{ error is defined }}"


def apply(page: Page) -> None:
    """Write entries of ``case``: a failure is tried again, an answer calls for the next page."""
    for step in page.steps():
        _pagination(page, step)
        found = step.entry("retry")
        if found is not None and isinstance(found.value, Map):
            found.value = _by_outcome(found.value)
        if found is None or not isinstance(found.value, List):
            continue
        made_entries = [_entry(page, item) for item in found.value.entries]
        if any(entry is None for entry in made_entries):
            continue
        entries = [entry for entry in made_entries if entry is not None]
        last = _last(text_of(step.get("step")) or "", found.value)
        case = step.get("case")
        if isinstance(case, List):
            remove(step, found)
            case.entries[:0] = [*entries, *last]
            continue
        found.key = found.raw_key = "case"
        found.value = List([*entries, *last])


def _by_outcome(retry: Map) -> Map | List:
    """Return ``on_error`` and ``on_success`` as entries; without them ``retry`` itself."""
    if not retry.entries or any(entry.key not in _OUTCOMES for entry in retry.entries):
        return retry
    items = []
    for entry in retry.entries:
        then = map_of(entry.value)
        given = then.take("when") or then.take("while")
        guard = given.value if given else Text(_FAILED if entry.key == "on_error" else None)
        block = Map([Entry("when", guard, "when"), Entry("then", then, "then")])
        items.append(
            Entry(None, block, lead=entry.lead, trail=entry.trail, line=entry.line, column=entry.column)
        )
    return List(items)


def _entry(page: Page, item: Entry) -> Entry | None:
    block = map_of(item.value)
    then = map_of(block.get("then"))
    guard = inner(plain(block.get("when")))
    if guard is None or not then.entries:
        page.refuse(
            item,
            "an entry of `retry` needs a guard that is one expression, and `then`",
            "write a `case` entry with `retry`",
        )
        return None
    failed = overrides_of(then) is None
    if failed is not bool(re.search(r"\berror\b", guard)):
        one, other = ("a failure", "an answer") if failed else ("an answer", "a failure")
        page.note(item, f"this entry of `retry` is for {one}; its guard may be for {other}")
    event = "event.name == 'call.error'" if failed else "event.name == 'call.done'"
    when = Text(both(event, guard))
    retry = Entry("retry", then, "retry", line=item.line, column=item.column)
    actions = Map([retry])
    entries = [Entry("when", when, "when", line=item.line), Entry("then", actions, "then", line=item.line)]
    return Entry(None, Map(entries), lead=item.lead, trail=item.trail, line=item.line, column=item.column)


def _last(step: str, entries: List) -> list[Entry]:
    """Return the entry for the last page, when pages are collected."""
    for item in entries.values():
        collect = map_of(map_of(item).get("then")).get("collect")
        if isinstance(collect, Map):
            block = dict(plain(collect))
            block.setdefault("into", f"{step}_pages")
            rule = {
                "when": "{{ event.name == 'call.done' and response is defined }}",
                "then": {"collect": made(block)},
            }
            return [
                Entry(None, made(rule, flow=False), line=item.entries[0].line if isinstance(item, Map) else 0)
            ]
    return []


def _pagination(page: Page, step: Map) -> None:
    loop = step.get("loop")
    found = loop.entry("pagination") if isinstance(loop, Map) else None
    if found is None or not isinstance(found.value, Map) or not isinstance(loop, Map) or step.has("retry"):
        return
    paging = found.value
    guard, call = paging.get("continue_while"), paging.get("next_page")
    if guard is None or call is None:
        page.refuse(
            found, "`pagination` needs `continue_while` and `next_page`", "write a `case` entry with `call`"
        )
        return
    left = sorted({str(entry.key) for entry in paging.entries} - _PAGING)
    if left:
        page.note(found, f"`{left[0]}` of `pagination` is left out")
    then: dict[str, object] = {"next_call": call}
    most = plain(paging.get("max_iterations", "max_pages"))
    if most is not None:
        then["max_attempts"] = most
    path = plain(paging.get("merge_path"))
    if path is not None:
        strategy = plain(paging.get("merge_strategy")) or "append"
        then["collect"] = {"strategy": strategy, "path": path}
    entries: list[object] = [{"when": guard, "then": made(then, flow=False)}]
    again = paging.get("retry")
    if again is not None:
        if not isinstance(again, Map):
            page.refuse(found, "`retry` of `pagination` is no mapping", "write a `case` entry with `retry`")
            return
        entries.insert(0, {"when": _FAILED, "then": again})
    entry = made(entries, flow=False)
    retry = Entry(
        "retry", entry, "retry", found.lead, found.trail, found.after, found.gap, found.line, found.column
    )
    loop.entries.remove(found)
    place = step.entries.index(step.entry("loop"))  # type: ignore[arg-type]
    if loop.entries:
        step.entries.insert(place + 1, retry)
    else:
        step.entries[place] = retry


RULE = Rule("retry-list", "Retries and pages are entries of `case`.", apply)
