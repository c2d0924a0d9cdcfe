"""Results of steps that are read as ``steps.<name>``."""

from __future__ import annotations

import re

from noetl.formatting.nodes import inside
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_PREFIX = re.compile(r"(?<![\w.'\"])steps\.(\w+)")
_BRACES = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)


def apply(page: Page) -> None:
    """Read a result by the name of its step."""
    names = page.step_names()
    if "steps" in names or any(entry.key == "steps" for entry in inside(page.root)):
        return

    def bare(found: re.Match[str]) -> str:
        return found[1] if found[1] in names else found[0]

    for text in page.texts():
        rewrite(text, _BRACES.sub(lambda part: _PREFIX.sub(bare, part[0]), text.value))


RULE = Rule("steps-prefix", "The result of a step is read by the step's name.", apply)
