"""Metadata that has no key of its own: ``tags``, ``author``, flags of other runtimes."""

from __future__ import annotations

from noetl.dsl.diagnostics import nearest
from noetl.formatting.nodes import Entry, List, Map, Text, map_of
from noetl.migration.page import Page, named, remove
from noetl.migration.rule import Rule

_KNOWN = frozenset({"name", "path", "version", "description", "labels", "schedule", "triggers"})
_COPIES = {"title": "name", "desc": "description"}
_STRUCTURED: dict[type, tuple[str, ...]] = {Map: ("labels", "schedule", "triggers"), List: ("triggers",)}
"""Keys whose values are no texts. Misspelt, they would do nothing; a text is kept as a label, and may be meant so (`trigger: manual`)."""
_MISSPELT = 0.8
"""Likeness from which a key is a misspelt one: `shedule` and `lables` are, `steps` is not."""


def apply(page: Page) -> None:
    """Keep them as labels, which are texts; a mapping is none, and is left out."""
    metadata = map_of(page.root.get("metadata"))
    for entry in list(metadata.entries):
        key = str(entry.key)
        if key in _KNOWN:
            continue
        if key in _COPIES and not metadata.has(_COPIES[key]):
            metadata.rename(key, _COPIES[key])
            continue
        if known := nearest(key, _STRUCTURED.get(type(entry.value), ()), _MISSPELT):
            page.refuse(entry, f"`{key}` is not a key of metadata", f"did you mean '{known}'?")
            continue
        if isinstance(entry.value, Map):
            page.note(
                entry, f"`metadata.{key}` is left out: it describes the playbook to other programs", safe=True
            )
            remove(metadata, entry)
            continue
        text = _text(entry)
        if text is None:
            page.refuse(entry, f"`metadata.{key}` has no place today", "remove it, or write it as labels")
            continue
        labels = metadata.entry("labels")
        if labels is None:
            entry.key = entry.raw_key = "labels"
            entry.value = Map([Entry(key, Text(text), key)], flow=True)
        elif isinstance(labels.value, Map) and not labels.value.has(key):
            remove(metadata, entry)
            labels.value.entries.append(named(key, Text(text)))


def _text(entry: Entry) -> str | None:
    value = entry.value
    if isinstance(value, Text):
        return _word(value.value)
    if isinstance(value, List):
        words = [_word(item.value) for item in value.values() if isinstance(item, Text)]
        if len(words) == len(value.entries):
            return ", ".join(word or "" for word in words)
    return None


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


RULE = Rule(
    "metadata-fields",
    "Metadata without a key of its own is kept in `metadata.labels`; a mapping is left out.",
    apply,
)
