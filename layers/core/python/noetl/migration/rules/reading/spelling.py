"""Older spellings of what runs: ``args``, ``outcome``, ``set_ctx``, labels of tasks, aliases of parameters."""

from __future__ import annotations

from noetl.formatting.spelling import respell
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Write the newest spelling; behind an anchor words stay, for an alias may read them otherwise."""
    if not page.document.anchors:
        respell(page.document, page.kinds)


RULE = Rule("spelling", "A key with several spellings is written in the newest one.", apply)
