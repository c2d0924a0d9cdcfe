"""Names of steps with characters that no name has here, such as ``load/orders``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.formatting.nodes import Entry, List, Map, Text, inside, text_of
from noetl.migration.page import RENDERED, Page
from noetl.migration.rule import Rule

_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_QUOTED = re.compile(r"[\"']([^\"'\n]{1,200})(?=[\"'])")
_STEPS = frozenset(
    {
        *("step", "next", "then", "else", "on_error", "to", "target", "goto"),
        *("entry_step", "final_step", "cancels", "return_step"),
    }
)
"""Keys whose text is the name of a step."""


def apply(page: Page) -> None:
    """Write ``_`` for them, wherever the step is named."""
    renamed = _renamed(page)
    for owner in _names(page.root) if renamed else ():
        name = text_of(owner.value)
        if name in renamed:
            owner.value = Text(renamed[name])


def _renamed(page: Page) -> dict[str | None, str]:
    """Return the new name of each step that needs one, by its name."""
    found: dict[str | None, str] = {}
    known = page.step_names()
    quoted: set[str] | None = None
    for step in page.steps():
        entry = step.entry("step")
        old = text_of(step.get("step"))
        if entry is None or old is None or _NAME.fullmatch(old) or "{" in old:
            continue
        quoted = _quoted(page) if quoted is None else quoted
        new = _OTHER.sub("_", old).strip("_")
        new = new if _NAME.fullmatch(new) else f"step_{new}"
        if new in known or old in quoted:
            page.refuse(
                entry, f"{old!r} is no name, and {new!r} would be read as another", "choose another name"
            )
            continue
        known.add(new)
        found[old] = new
        page.note(entry, f"the step {old!r} is called {new!r}", safe=True)
    return found


def _quoted(page: Page) -> set[str]:
    """Return the words in quotes in templates and code: a step may be read by such a name."""
    texts = (text_of(entry.value) or "" for entry in inside(page.root))
    return {word for text in texts for word in _QUOTED.findall(text)}


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


RULE = Rule("step-names", "The name of a step has letters, digits, `_` and `-`.", apply)
