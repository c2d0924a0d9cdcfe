"""``ctx.x`` in templates, where ``x`` is a name of the workload."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, Map, inside, map_of, text_of
from noetl.formatting.spelling import rename
from noetl.migration.page import Page, entries_read
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.context_name import set_in

_ANSWERED = re.compile(r"\bctx\b[^{}|]{0,200}(?:\|\s{0,9}d(?:efault)?\b|\bis\s)")
"""A text that says itself what holds without a value, also one that was rewritten."""


def apply(page: Page) -> None:
    """Read the workload for a name that no step sets.

    A guard, and what a step sets, may read a name before it is set: then that of the workload.
    """
    names = {str(entry.key) for entry in map_of(page.root.get("workload")).entries}
    for step in page.steps():
        names -= {str(entry.key) for entry in inside(step.get("vars") or Map([]))}
    later = names & set(set_in(page.root))
    never = names - later
    later -= set(set_in(_first(page)))

    def read(name: str, entry: str | None) -> tuple[str, bool] | None:
        return (f"workload.{entry}", True) if name == "ctx" and entry in never else None

    def before(name: str, entry: str | None) -> tuple[str, bool] | None:
        return (
            (f"(ctx.{entry} | default(workload.{entry}))", True) if name == "ctx" and entry in later else None
        )

    if never:
        page.substitute(read)
    for entry in entries_read(page.root) if later else ():
        if _may_come_first(entry) and not _ANSWERED.search(text_of(entry.value) or ""):
            rename(entry.value, before)


def _may_come_first(entry: Entry) -> bool:
    return entry.key == "when" or (entry.key or "").startswith("ctx.")


def _first(page: Page) -> Map:
    """Return the step that an execution begins with."""
    steps = page.steps()
    return next(
        (step for step in steps if text_of(step.get("step")) == "start"), steps[0] if steps else Map([])
    )


RULE = Rule("ctx-workload", "A name of `ctx` that no step has set is one of the workload.", apply)
