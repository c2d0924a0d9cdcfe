"""Entries of ``keychain`` whose kind is called ``type``."""

from __future__ import annotations

from noetl.formatting.nodes import items_of, map_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Call it ``kind``, and the credential that an entry reads ``credential``."""
    for entry in map(map_of, items_of(page.root.get("keychain"))):
        for old, new in (("type", "kind"), ("ref", "credential")):
            if entry.has(old) and not entry.has(new):
                entry.rename(old, new)


RULE = Rule("keychain-kind", "An entry of the keychain has a `kind`.", apply)
