"""``save`` of a loop as a whole: what was written once, when all items were done."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, List, Map, Text, inside, made, text_of
from noetl.formatting.spelling import rename, rewrite
from noetl.migration.page import Page, kind_of, names_read
from noetl.migration.rule import Rule

_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_ALL = frozenset({"results", "items", "result"})
"""Names of the list of results."""
_WHOLE = _ALL | {"count"}
_OF_A_CALL = frozenset({"response", "this", "error", "errors", "output"})
_ROUTING = ("case", "retry")


def apply(page: Page) -> None:
    """Write a step after the loop that saves.

    It reads the loop by its name, and continues where the loop did.
    """
    flow = page.root.get("workflow")
    if not isinstance(flow, List):
        return
    for item in list(flow.entries):
        step = item.value
        entry = step.entry("save") if isinstance(step, Map) else None
        if not isinstance(step, Map) or entry is None or not _loops(step) or not isinstance(entry.value, Map):
            continue
        read = names_read(entry.value)
        if step.has("loop") and not read & (_WHOLE - {"result"}):
            continue
        reason = _reason(step, entry.value, read)
        if reason is not None:
            page.refuse(entry, reason, "write what is saved in a step after the loop")
            continue
        _move(page, flow, item, step, entry)


def _loops(step: Map) -> bool:
    tool = step.get("tool")
    return step.has("loop") or (isinstance(tool, Map) and kind_of(tool) == "iterator")


def _reason(step: Map, save: Map, read: frozenset[str]) -> str | None:
    """Return why the ``save`` cannot be a step of its own."""
    if not _NAME.match(text_of(step.get("step")) or ""):
        return "`save` of a loop whose name is no word for templates"
    if any(step.has(name) for name in _ROUTING):
        return "`save` of a loop beside `case` or `retry`"
    after = step.get("next")
    if read & _OF_A_CALL or (after is not None and names_read(after) & (_ALL | _OF_A_CALL)):
        return "`save` of a loop was done once, and what is read here belongs to one call"
    return None


def _move(page: Page, flow: List, item: Entry, step: Map, entry: Entry) -> None:
    loop = text_of(step.get("step")) or ""
    name = f"{loop}_save"
    while name in page.step_names():
        name = f"{name}_once"
    for one in inside(entry.value):
        _read_loop(one, loop)
    step.entries.remove(entry)
    head = [
        Entry("step", Text(name), "step", line=entry.line, column=entry.column),
        Entry("tool", made({"kind": "noop"}), "tool", line=entry.line, column=entry.column),
        entry,
    ]
    after = step.entry("next")
    following = Entry("next", made([{"step": name}]), "next", line=entry.line, column=entry.column)
    if after is None:
        step.entries.append(following)
    else:
        step.entries[step.entries.index(after)] = following
        head.append(after)
    place = flow.entries.index(item) + 1
    flow.entries.insert(place, Entry(None, Map(head), gap=item.gap, line=entry.line, column=entry.column))


def _read_loop(entry: Entry, loop: str) -> None:
    def change(name: str, attribute: str | None) -> tuple[str, bool] | None:
        if name == "count":
            return f"({loop} | length)", False
        return (loop, False) if name in _ALL else None

    value = entry.value
    rename(value, change)
    if isinstance(value, Text) and isinstance(value.value, str):
        alone = f"({loop} | length)"
        rewrite(value, value.value.replace(f"{{{{ {alone} }}}}", f"{{{{ {loop} | length }}}}"))


RULE = Rule("loop-save", "What a loop saves as a whole is written by a step after it.", apply)
