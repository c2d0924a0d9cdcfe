"""``tool: http`` or ``type: http`` with the tool's keys beside it."""

from __future__ import annotations

from noetl.formatting.nodes import Entry, Map, Text, text_of
from noetl.migration.page import Page, named, remove
from noetl.migration.rule import Rule

_STEP = frozenset(
    {
        *("step", "desc", "next", "loop", "case", "retry", "save", "sink", "vars", "when", "as", "spec"),
        *("set", "set_ctx", "output", "tool", "type"),
    }
)
_WORKBOOK = frozenset({"name", "desc", "sink", "save", "tool", "type", "title"})
_INNER = frozenset({"tool", "type", "save", "sink", "name", "desc"})
_SQL = frozenset({"postgres", "duckdb", "snowflake"})
"""Kinds whose templates read ``data`` of their step by name."""
_ROUTES = frozenset({"router", "start", "end", "noop", "route"})


def apply(page: Page) -> None:
    """Make a mapping of the tool, with its keys in it; a step that only routes has none."""
    for step in page.steps():
        _gather(page, step, _STEP, routes=True)
    for task in page.workbook():
        if task.has("task") and not task.has("name"):
            task.rename("task", "name")
        _gather(page, task, _WORKBOOK)
    for one in page.maps():
        inner = one.get("task")
        if isinstance(inner, Map) and text_of(inner.get("kind")) is None:
            _gather(page, inner, _INNER)


def _gather(page: Page, owner: Map, own: frozenset[str], *, routes: bool = False) -> None:
    head = _head(owner)
    if head is None:
        return
    kind = text_of(head.value) or ""
    if routes and kind in _SQL and owner.has("data") and not owner.has("args"):
        owner.rename("data", "args")
        own |= {"args"}
    keys = [entry for entry in owner.entries if entry.key not in own and entry is not head]
    if kind in _ROUTES and routes:
        kind = "noop"
        if not keys:
            remove(owner, head)
            return
    if kind == "workbook" and owner.has("name") and "name" not in own:
        keys = [entry for entry in owner.entries if entry in keys or entry.key == "name"]
    if kind == "workbook" and not any(entry.key in ("name", "task") for entry in keys):
        call = owner.take("call")
        keys = [entry for entry in keys if entry is not call]
        if call is not None:
            call.key = call.raw_key = "name"
            keys.insert(0, call)
    first = Entry("kind", Text(kind), "kind", line=head.line, column=head.column)
    block = Map([first, *keys])
    place = owner.entries.index(head)
    owner.entries[place] = named("tool", block, head)
    if head.trail:
        first.trail, owner.entries[place].trail = head.trail, None
    owner.entries[:] = [entry for entry in owner.entries if entry not in keys]


def _head(owner: Map) -> Entry | None:
    """Return the entry that names the kind: a text under ``tool``, else under ``type``."""
    for name in ("tool", "type"):
        entry = owner.entry(name)
        if entry is not None and text_of(entry.value) is not None:
            if name == "type" and owner.has("tool"):
                continue
            return entry
    return None


RULE = Rule("tool-name", "A tool is a mapping: `kind` and the other keys belong to `tool`.", apply)
