"""Results of steps that are read as ``steps.<name>``."""

from __future__ import annotations

import re

from noetl.formatting.nodes import inside
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_PREFIX = re.compile(r"(?<![\w.'\"])steps\.(\w+)")
_BRACES = re.compile(r"\{[{%].*?(?:[%}]\}|\Z)", re.DOTALL)
"""Templates, and at the end of a text what no brace ends: nothing behind it is searched again."""


def apply(page: Page) -> None:
    """Read a result by the name of its step."""
    names = page.step_names()
    if "steps" in names or any(entry.key == "steps" for entry in inside(page.root)):
        return

    def bare(found: re.Match[str]) -> str:
        return found[1] if found[1] in names else found[0]

    def inside_braces(part: re.Match[str]) -> str:
        return _PREFIX.sub(bare, part[0]) if part[0].endswith(("}}", "%}")) else part[0]

    for text in page.texts():
        rewrite(text, _BRACES.sub(inside_braces, text.value))


RULE = Rule("steps-prefix", "The result of a step is read by the step's name.", apply)
