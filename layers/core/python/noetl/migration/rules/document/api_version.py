"""``apiVersion`` of another generation."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Text, text_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_KNOWN = re.compile(r"noetl\.io/v\d+\w*\Z")


def apply(page: Page) -> None:
    """Name the version that runs; of another API's version the meaning is not known."""
    entry = page.root.entry("apiVersion")
    text = text_of(entry.value) if entry is not None else None
    if entry is not None and text is not None and text != "noetl.io/v2" and _KNOWN.match(text):
        entry.value = Text("noetl.io/v2")


RULE = Rule("api-version", "The language has one version, noetl.io/v2.", apply)
