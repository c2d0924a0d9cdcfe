"""Guards that compare outside of their braces: ``"{{ env }} == prod"``."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Text
from noetl.formatting.spelling import rewrite
from noetl.migration.guards import compared
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_GUARDS = ("when", "retry_when", "stop_when")
_WORD = re.compile(r"[!=]= '(?!(?:true|false|none|null|yes|no|on|off)')[a-z][\w./-]*' \}\}\Z", re.IGNORECASE)
"""A comparison with a text that is neither a number nor a boolean: it means the same in any case."""


def apply(page: Page) -> None:
    """Compare inside of the braces: any other text is no truth value."""
    for one in page.maps():
        for entry in one.entries:
            if entry.key in _GUARDS and isinstance(entry.value, Text):
                guard = compared(entry.value.value)
                if guard is not None:
                    rewrite(entry.value, guard)
                    page.note(
                        entry,
                        "texts are compared: a number or a boolean is compared as it is written",
                        safe=bool(_WORD.search(guard)),
                    )


RULE = Rule("guard-text", "A guard is one expression, with its comparison inside of the braces.", apply)
