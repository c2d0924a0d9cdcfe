"""A list at the root of the credentials that a playbook uses."""

from __future__ import annotations

from noetl.formatting.nodes import List, Map, Value, text_of
from noetl.migration.page import Page, remove
from noetl.migration.rule import Rule

_KEYS = frozenset({"name", "type", "description"})
"""What says nothing but which credential it is."""


def apply(page: Page) -> None:
    """Leave it out where it names them alone: a task names its credential itself."""
    entry = page.root.entry("credentials")
    if entry is None or not isinstance(entry.value, List):
        return
    names = [_name(value) for value in entry.value.values()]
    if names and None not in names:
        used = ", ".join(name for name in names if name)
        page.note(entry, f"`credentials` is left out: register {used}, which tasks name as `auth`", safe=True)
        remove(page.root, entry)


def _name(value: Value) -> str | None:
    if not isinstance(value, Map):
        return text_of(value)
    return text_of(value.get("name")) if set(value.keys()) <= _KEYS else None


RULE = Rule("root-credentials", "Credentials are registered, and named by the tasks that use them.", apply)
