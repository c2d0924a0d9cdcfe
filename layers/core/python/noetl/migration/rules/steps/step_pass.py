"""``pass`` of a step: whether its work is left out."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Text, Value, map_of, plain
from noetl.migration.page import Page, remove
from noetl.migration.rule import Rule

_WORKLOAD = re.compile(r"\{\{\s{0,9}workload((?:\.[A-Za-z_]\w{0,99}){1,9})\s{0,9}\}\}")
_STAYS = frozenset({"step", "desc", "next"})


def apply(page: Page) -> None:
    """Leave out the key, or the work of the step; what depends on values is refused."""
    for step in page.steps():
        entry = step.entry("pass")
        if entry is None:
            continue
        value = plain(entry.value)
        if isinstance(value, str) and _is_unknown(page, value):
            page.note(
                entry,
                f"the workload has no {value.strip('{} ')}, so the step is never left out, also where a request brings it",
            )
            value = None
        if value not in (None, "", True, False):
            page.refuse(
                entry,
                "`pass` of a step: releases differ in which values of it leave the step out",
                "write a guard on the arcs that lead there, and one that goes past it",
            )
            continue
        if value is True:
            page.note(entry, "the step is always left out, so its work is")
        gone = [one for one in step.entries if one is entry or (value is True and one.key not in _STAYS)]
        for one in gone:
            remove(step, one)


def _is_unknown(page: Page, value: str) -> bool:
    """Return whether a template reads an entry that the workload does not have."""
    found = _WORKLOAD.fullmatch(value)
    block: Value | None = page.root.get("workload")
    for name in found[1].split(".")[1:] if found else ():
        if isinstance(block, Text):
            return False
        if not map_of(block).has(name):
            return True
        block = map_of(block).get(name)
    return False


RULE = Rule("step-pass", "A step that is left out has no work; any other says nothing.", apply)
