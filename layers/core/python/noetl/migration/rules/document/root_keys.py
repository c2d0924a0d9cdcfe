"""Keys of the root that moved: ``name``, ``path``, ``description``, ``labels``, ….

The others are ``tags`` and ``steps``.
"""

from __future__ import annotations

from noetl.formatting.nodes import Map
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_METADATA = ("name", "path", "description", "labels", "tags", "version")


def apply(page: Page) -> None:
    """Move metadata below ``metadata``, and call the list of steps ``workflow``."""
    root = page.root
    if root.has("steps") and not root.has("workflow"):
        root.rename("steps", "workflow")
    moved = [entry for entry in root.entries if entry.key in _METADATA]
    if not moved:
        return
    metadata = root.entry("metadata")
    if metadata is None:
        place = root.entries.index(moved[0])
        metadata = root.put("metadata", Map([]))
        root.entries.remove(metadata)
        root.entries.insert(place, metadata)
    block = metadata.value
    if not isinstance(block, Map):
        return
    for entry in moved:
        if block.has(str(entry.key)):
            page.refuse(entry, f"`{entry.key}` is written at the root and in `metadata`", "keep one of them")
            continue
        root.entries.remove(entry)
        block.entries.append(entry)
        block.flow = False


RULE = Rule(
    "root-keys", "Name, path and labels belong to `metadata`; the list of steps is `workflow`.", apply
)
