"""Results of steps that are read as ``steps.<name>``."""

from __future__ import annotations

import re

from noetl.formatting.nodes import inside
from noetl.formatting.spelling import rewrite
from noetl.formatting.templates import in_templates
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_PREFIX = re.compile(r"(?<![\w.'\"])steps\.(\w+)")


def apply(page: Page) -> None:
    """Read a result by the name of its step."""
    names = page.step_names()
    if "steps" in names or any(entry.key == "steps" for entry in inside(page.root)):
        return

    def bare(found: re.Match[str]) -> str:
        return found[1] if found[1] in names else found[0]

    for text in page.texts():
        rewrite(text, in_templates(text.value, lambda template: _PREFIX.sub(bare, template)))


RULE = Rule("steps-prefix", "The result of a step is read by the step's name.", apply)
