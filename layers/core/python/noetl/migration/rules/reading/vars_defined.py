"""``{{ vars.x is defined }}``, where ``x`` is a value that a result may lack."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Map, Text, inside, text_of
from noetl.formatting.spelling import rewrite
from noetl.formatting.templates import in_templates
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_TEST = re.compile(r"(?<![\w.'\"])vars\.(?P<name>[A-Za-z_]\w{0,99}) is (?P<no>not )?defined\b(?! and vars\.)")
_ABSENT = re.compile(r"\{\{-?\s{0,9}not vars\.(?P<name>[A-Za-z_]\w{0,99})\s{0,9}-?\}\}")
"""A guard of the way that is taken without a value."""
_PATH = re.compile(
    r"\{\{-?\s{0,9}(?P<path>(?:\(result\.data \| default\(result\)\)|\w+)(?:\.\w+|\[\d+\]){1,20})\s{0,9}-?\}\}"
)


def apply(page: Page) -> None:
    """Keep null for what is missing, beside a name that is asked for, and ask for null, too."""
    blocks = [block for step in page.steps() if isinstance(block := step.get("vars"), Map)]
    given = [{str(entry.key): entry for entry in inside(block)} for block in blocks]
    texts = [text.value for text in page.texts()]
    tested = {found["name"] for text in texts for found in _TEST.finditer(text)}
    tested |= {found["name"] for text in texts if (found := _ABSENT.fullmatch(text))}
    missing = set()
    for entries in given:
        names = {name for name in tested & entries.keys() if _path(entries[name].value)}
        missing |= names
        for entry in entries.values() if names else ():
            if isinstance(entry.value, Text) and (path := _path(entry.value)) is not None:
                rewrite(entry.value, f"{{{{ {path} | default(none) }}}}")
    for text in page.texts() if missing else ():
        rewrite(
            text, in_templates(text.value, lambda one: _TEST.sub(lambda found: _null(found, missing), one))
        )


def _path(value: object) -> str | None:
    """Return the path below a name that a text is as a whole."""
    found = _PATH.fullmatch(text_of(value) or "") if isinstance(value, Text) else None
    return None if found is None else found["path"]


def _null(found: re.Match[str], missing: set[str]) -> str:
    name = f"vars.{found['name']}"
    if found["name"] not in missing:
        return found[0]
    return f"{'not ' if found['no'] else ''}({name} is defined and {name} is not none)"


RULE = Rule(
    "vars-defined", "A value that a result lacks is null, for a guard that asks whether it is there.", apply
)
