"""Keys of the root that moved: ``name``, ``path``, ``description``, ``labels``, ….

The others are ``tags`` and ``steps``, and what was below ``spec``.
"""

from __future__ import annotations

from noetl.formatting.nodes import Map, map_of, plain
from noetl.migration.page import Page, replace
from noetl.migration.rule import Rule

_PARTS = ("workload", "workbook", "keychain", "executor", "workflow", "steps")
_METADATA = ("name", "path", "description", "labels", "tags", "version")


def apply(page: Page) -> None:
    """Move metadata below ``metadata``, and call the list of steps ``workflow``."""
    root = page.root
    _lift(root)
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


def _lift(root: Map) -> None:
    """Put the parts of a playbook that are below ``spec`` in its place."""
    spec = root.entry("spec")
    parts = map_of(spec.value if spec is not None else None)
    if spec is None or not (parts.has("workflow") or parts.has("steps")):
        return
    if all(key in _PARTS and not root.has(key) for key in plain(parts)):
        replace(root, spec, parts.entries)


RULE = Rule(
    "root-keys", "Name, path and labels belong to `metadata`; the list of steps is `workflow`.", apply
)
