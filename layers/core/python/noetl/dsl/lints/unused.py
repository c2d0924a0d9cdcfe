"""Lints of unused declarations: workbook tasks, keychain entries, workload keys.

Only ``--strict`` asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.dsl.lowering.context import Lowering
from noetl.dsl.nodes import Pos
from noetl.dsl.yaml_text.tree import Key, Mapping, Scalar, Sequence, Tree, items_of, mapping_of, text_of

_READING = ("workflow", "workbook", "on_success", "on_failure", "finally")
"""Keys of the root whose texts may read the keychain."""
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*")


def check_unused(lowering: Lowering, root: Mapping) -> None:
    """Warn about names that no text which can read them holds as a word.

    Code reads names too, so every text counts.
    """
    words = _words(root, (*_READING, "executor", "keychain"))
    whole = any("workload" in use.analysis.whole for use in lowering.uses)
    diagnostics = lowering.diagnostics
    entries = items_of(root.get("workbook"))
    tasks = [(text_of(mapping_of(item).get("name")) or "", item.pos) for item in entries]
    tasks += [(key.text, key.pos) for key, _ in mapping_of(root.get("workbook")).items()]
    for name, pos in tasks:
        if name not in lowering.workbook_used:
            diagnostics.warning(
                "unused-name", f"nothing calls the workbook task {name!r}", pos, hint="call it, or remove it"
            )
    for item in items_of(root.get("keychain")):
        name = text_of(mapping_of(item).get("name")) or ""
        if name not in _words(root, _READING):
            diagnostics.warning(
                "unused-name", f"nothing reads keychain.{name}", item.pos, hint="read it, or remove it"
            )
    for key, place in _workload(root):
        if not whole and key.text not in words and key.text not in _words(root, ("workload",), but=key.text):
            diagnostics.warning(
                "unused-name", f"nothing reads workload.{key.text}", place, hint="read it, or remove it"
            )


def _workload(root: Mapping) -> Iterator[tuple[Key, Pos]]:
    for key, _ in mapping_of(root.get("workload")).items():
        yield key, key.pos


def _words(root: Mapping, keys: tuple[str, ...], but: str = "") -> frozenset[str]:
    """Collect every word of every text under these root keys.

    Under ``workload`` only templates of other entries count.
    """
    found: set[str] = set()
    for name in keys:
        for text in _texts(root.get(name), but):
            if name != "workload" or "{{" in text:
                found.update(_WORD.findall(text))
    return frozenset(found)


def _texts(tree: Tree | None, but: str) -> Iterator[str]:
    if isinstance(tree, Scalar):
        if isinstance(tree.value, str):
            yield tree.value
    elif isinstance(tree, Sequence):
        for item in tree.items:
            yield from _texts(item, but)
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            if key.text != but or not but:
                yield from _texts(value, "")
