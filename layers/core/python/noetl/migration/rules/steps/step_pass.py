"""``pass`` of a step: whether its work is left out."""

from __future__ import annotations

from noetl.formatting.nodes import plain
from noetl.migration.page import Page, remove
from noetl.migration.rule import Rule

_STAYS = frozenset({"step", "desc", "next"})


def apply(page: Page) -> None:
    """Leave out the key, or the work of the step; what depends on values is refused."""
    for step in page.steps():
        entry = step.entry("pass")
        if entry is None:
            continue
        value = plain(entry.value)
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


RULE = Rule("step-pass", "A step that is left out has no work; any other says nothing.", apply)
