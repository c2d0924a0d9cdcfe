"""``database`` of duckdb: ``:memory:``, and a file outside of the work folder."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, Map, map_of, text_of
from noetl.migration.page import Page, kind_of, remove, statements_of
from noetl.migration.rule import Rule

_FOLDERS = re.compile(r"[^/\s{}]{0,255}/[^{}]*\Z")
_WORKLOAD = re.compile(r"\{\{\s{0,9}workload\.(\w{1,99})\s{0,9}\}\}")
_CHANGES = re.compile(
    r"(?:\A|;)\s{0,99}(?:(?:insert|delete|alter|drop|merge|truncate)\s|update\s+\w|"
    r"create\s+(?:or\s+replace\s+)?(?:table|view|schema|index|unique|sequence|type|macro)\b)",
    re.IGNORECASE,
)


def apply(page: Page) -> None:
    """Remove ``:memory:``, and say of a file how it is opened."""
    for tool in page.tools():
        entry = tool.entry("database")
        if kind_of(tool) != "duckdb" or entry is None:
            continue
        value = text_of(entry.value) or ""
        found = _WORKLOAD.fullmatch(value)
        path = (text_of(map_of(page.root.get("workload")).get(found[1])) or "") if found else value
        if value == ":memory:":
            remove(tool, entry)
        elif _FOLDERS.match(path):
            _say(page, tool, entry, path)


def _say(page: Page, tool: Map, entry: Entry, path: str) -> None:
    if any(_CHANGES.search(str(text.value)) for text in statements_of(tool)):
        page.refuse(
            entry,
            f"the statements change the database {path!r}, and a file in a folder is only read",
            "name it without folders, and it is kept in the work folder: database: state",
        )
    else:
        page.note(
            entry,
            f"the database {path!r} is read beside the playbook, or in a folder of NOETL_DATA_DIRS of a worker",
            safe=True,
        )


RULE = Rule("duckdb-memory", "Without `database`, duckdb works in memory.", apply)
