"""``<step>.result_index`` and ``_loop``: the item of a loop, and its place."""

from __future__ import annotations

from noetl.formatting.nodes import Entry, Map, inside, map_of, text_of
from noetl.formatting.spelling import rename
from noetl.migration.page import Page, entries_read, kind_of
from noetl.migration.rule import Rule

_PLACES = ("current_index", "index")


def apply(page: Page) -> None:
    """Read it as ``iter.index``; the step itself has no result before its end."""
    for step in page.steps():
        name = text_of(step.get("step"))
        loops = [entry for entry in inside(step) if _is_loop(entry)]
        if name and len(loops) == 1:
            for entry in entries_read(step):
                _read_index(entry, name, text_of(map_of(loops[0].value).get("iterator", "element")))


def _is_loop(entry: Entry) -> bool:
    value = entry.value
    if not isinstance(value, Map):
        return False
    return entry.key == "loop" or kind_of(value) == "iterator"


def _read_index(entry: Entry, step: str, iterator: str | None) -> None:
    def change(name: str, attribute: str | None) -> tuple[str, bool] | None:
        if name == "_loop" and attribute == "current_item" and iterator:
            return f"iter.{iterator}", True
        known = (name == step and attribute == "result_index") or (name == "_loop" and attribute in _PLACES)
        return ("iter.index", True) if known else None

    rename(entry.value, change)


RULE = Rule("loop-index", "The place of an item in its loop is `iter.index`.", apply, repairs=True)
