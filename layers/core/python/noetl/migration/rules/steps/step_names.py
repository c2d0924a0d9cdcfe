"""Names of steps with characters that no name has here, such as ``load/orders``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.formatting.nodes import Entry, List, Map, Text, inside, map_of, text_of
from noetl.migration.page import RENDERED, Page
from noetl.migration.rule import Rule

_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_STEPS = frozenset(
    {
        *("step", "next", "then", "else", "on_error", "to", "target", "goto"),
        *("entry_step", "final_step", "cancels", "return_step"),
    }
)
"""Keys whose text is the name of a step."""


def apply(page: Page) -> None:
    """Write ``_`` for them, wherever the step is named."""
    known = page.step_names()
    for step in page.steps():
        entry = step.entry("step")
        old = text_of(step.get("step"))
        if entry is None or old is None or _NAME.fullmatch(old) or "{" in old:
            continue
        new = _OTHER.sub("_", old).strip("_")
        new = new if _NAME.fullmatch(new) else f"step_{new}"
        if new in known or _is_read(page, old):
            page.refuse(
                entry, f"{old!r} is no name, and {new!r} would be read as another", "choose another name"
            )
            continue
        known.add(new)
        for owner in _names(page.root):
            if text_of(owner.value) == old:
                owner.value = Text(new)
        page.note(entry, f"the step {old!r} is called {new!r}", safe=True)


def _names(value: Map | List, *, of_steps: bool = False) -> Iterator[Entry]:
    """Yield the entries that name a step."""
    for entry in value.entries:
        if entry.key in RENDERED or entry.key in ("workload", "metadata", "code"):
            continue
        named = of_steps if entry.key is None else entry.key in _STEPS
        if isinstance(entry.value, Text) and named:
            yield entry
        elif isinstance(entry.value, (Map, List)):
            yield from _names(entry.value, of_steps=named)


def _is_read(page: Page, name: str) -> bool:
    """Return whether a template or code reads the step by its name in quotes."""
    texts = (text_of(entry.value) or "" for entry in inside(map_of(page.root)))
    quoted = (f"'{name}'", f'"{name}"')
    return any(one in text for text in texts for one in quoted)


RULE = Rule("step-names", "The name of a step has letters, digits, `_` and `-`.", apply)
