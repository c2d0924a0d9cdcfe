"""``{{ vars.x is defined }}``, where ``x`` is a value that a result may lack."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Text, map_of, text_of
from noetl.formatting.spelling import rewrite
from noetl.formatting.templates import in_templates
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_TEST = re.compile(
    r"(?<![\w.'\"])vars\.(?P<name>[A-Za-z_]\w{0,99}) is (?P<no>not )?defined\b(?! and vars\.(?P=name) is not none)"
)
_ABSENT = re.compile(r"\{\{-?\s{0,9}not vars\.(?P<name>[A-Za-z_]\w{0,99})\s{0,9}-?\}\}")
"""A guard of the way that is taken without a value."""
_ANSWERED = re.compile(
    r"(?<![\w.'\"])(?:vars\.|vars\[['\"])?(?P<name>[A-Za-z_]\w{0,99})(?:['\"]\])?\s{0,9}(?:\|\s{0,9}d(?:efault)?\b|is\s)"
)
"""What is read with a word for where it is missing, which null is not."""
_PATH = re.compile(
    r"\{\{-?\s{0,9}(?P<path>(?:\(result\.data \| default\(result\)\)|\w+)(?:\.\w+|\[\d+\]){1,20})\s{0,9}-?\}\}"
)


def apply(page: Page) -> None:
    """Keep null for what is missing, beside a name that is asked for, and ask for null, too."""
    texts = [text.value for text in page.texts()]
    tested = {found["name"] for text in texts for found in _TEST.finditer(text)}
    tested |= {found["name"] for text in texts if (found := _ABSENT.fullmatch(text))}
    otherwise = read_otherwise(page) if tested else None
    missing: set[str] = set()
    for step in page.steps() if tested else ():
        entries = {str(entry.key): entry for entry in map_of(step.get("vars")).entries}
        paths = {name: path for name in entries.keys() & tested if (path := _path(entries[name].value))}
        if not paths or otherwise is None or otherwise & entries.keys():
            continue
        missing |= paths.keys()
        first = next(path for name in entries if (path := paths.get(name)))
        for name, entry in entries.items():
            own = _path(entry.value)
            if own is not None and isinstance(entry.value, Text):
                value = (
                    f"{own} | default(none)" if name in paths else f"{own} if {first} is defined else none"
                )
                rewrite(entry.value, f"{{{{ {value} }}}}")
    for text in page.texts() if missing else ():
        rewrite(
            text, in_templates(text.value, lambda one: _TEST.sub(lambda found: _null(found, missing), one))
        )


def read_otherwise(page: Page, *, tests: bool = False) -> set[str] | None:
    """Return the names that are read with a word for what is missing, such as `default`.

    Null is another value there. None: code reads `vars`. ``tests``: `is defined` is such a word, too; else it is asked in
    other words afterwards.
    """
    if any("vars" in (text_of(tool.get("code")) or "") for tool in page.tools()):
        return None
    return {
        found["name"]
        for text in page.texts()
        for found in _ANSWERED.finditer(text.value)
        if tests or not _TEST.match(text.value, found.start())
    }


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
