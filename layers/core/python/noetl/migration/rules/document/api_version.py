"""``apiVersion`` of another generation."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Text, text_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_EARLIER = re.compile(r"noetl\.io/v(?:[01]\w*|2(?:alpha|beta)\w*)\Z")


def apply(page: Page) -> None:
    """Name the version that runs.

    Of a later version, or of another API's, the meaning is not known.
    """
    entry = page.root.entry("apiVersion")
    text = text_of(entry.value) if entry is not None else None
    if entry is not None and text is not None and text != "noetl.io/v2" and _EARLIER.match(text):
        entry.value = Text("noetl.io/v2")


RULE = Rule("api-version", "The language has one version, noetl.io/v2.", apply)
