"""Older spellings of what runs.

They are ``args``, ``outcome``, ``set_ctx``, labels of tasks, and aliases of parameters.
"""

from __future__ import annotations

from noetl.formatting.spelling import respell
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Write the newest spelling.

    Behind an anchor words stay, because an alias may read them in another sense.
    """
    if not page.document.anchors:
        respell(page.document, page.kinds)


RULE = Rule("spelling", "A key with several spellings is written in the newest one.", apply)
