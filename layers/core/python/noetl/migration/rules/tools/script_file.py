"""``script`` of a ``python`` or SQL tool: its text in a file or a store."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, Map, Text, map_of, plain, text_of
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_FIELD = {"python": "code", "postgres": "query", "duckdb": "query", "snowflake": "query"}
_DEFAULT = re.compile(r"\{\{\s*(?:workload\.)?([A-Za-z_]\w*)\s*\}\}\Z")
_STORES = ("s3", "gcs", "gs", "http", "https")


def apply(page: Page) -> None:
    """Take the text of a file into the playbook, where it is versioned with it."""
    for tool in page.tools():
        field = _FIELD.get(kind_of(tool))
        entry = tool.entry("script")
        if field is None or entry is None:
            continue
        if tool.has(field):
            page.refuse(entry, f"`script` is written beside `{field}`", "keep one of them")
            continue
        place = _place(page, entry)
        kind = text_of(map_of(map_of(entry.value).get("source")).get("type")) or "file"
        if place is None or kind in _STORES or "://" in place.removeprefix("file://"):
            hint = (
                f"fetch it in a step before (kind: s3, gcs or http) and hand on its text, or write it as `{field}`; "
                "`kind: script` runs a file as a program"
            )
            page.refuse(entry, "a script outside of the playbook cannot be taken into it", hint)
            continue
        text = page.read_file(place.removeprefix("file://"))
        if text is None:
            page.refuse(
                entry,
                f"the script {place!r} cannot be read",
                "run the command where the file is, or write the text itself",
            )
            continue
        if field == "query" and "{{" in text:
            page.refuse(entry, f"the script {place!r} has templates", "write it as `query`")
            continue
        if field == "code" and _asks_for_help(text):
            page.note(entry, "code below `if __name__` is not run: `main` is called")
        body = Text(text if text.endswith("\n") else f"{text}\n", style="|")
        tool.entries[tool.entries.index(entry)] = Entry(
            field, body, field, entry.lead, entry.trail, entry.after, entry.gap, entry.line, entry.column
        )
        page.note(
            entry,
            f"the text of {place} is in the playbook now: changes of the file have no effect any more",
        )


def _place(page: Page, entry: Entry) -> str | None:
    block = entry.value
    given = block.get("path", "uri", "file") if isinstance(block, Map) else block
    text = plain(given)
    if not isinstance(text, str):
        return None
    default = _DEFAULT.match(text)
    if default is not None:
        text = plain(map_of(page.root.get("workload")).get(default[1]))
    return text if isinstance(text, str) and "{{" not in text else None


def _asks_for_help(text: str) -> bool:
    return "__name__" in text


RULE = Rule(
    "script-file",
    "Code and SQL are part of the playbook; the text of a file in its folder is copied into it.",
    apply,
)
