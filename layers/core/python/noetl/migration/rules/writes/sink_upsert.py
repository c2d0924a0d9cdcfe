"""``mode`` and ``key`` of a postgres tool that writes to a ``table``."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, List, Map, Text, plain, text_of
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_TABLE = re.compile(r"[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*){0,2}\Z")
_COLUMN = re.compile(r"[A-Za-z_]\w*\Z")
_PLAIN = ("insert", "append")


def apply(page: Page) -> None:
    """Leave ``insert`` out, and write an upsert as SQL whose values are bound."""
    for owner in page.maps():
        tool = owner.get("tool") if owner.has("tool") else None
        if isinstance(tool, Map) and kind_of(tool) == "postgres":
            _mode(page, owner, tool)


def _mode(page: Page, owner: Map, tool: Map) -> None:
    mode = tool.entry("mode")
    if mode is None:
        return
    word = text_of(mode.value)
    if word in _PLAIN:
        tool.entries.remove(mode)
        tool.take("key")
        return
    table = text_of(owner.get("table")) or text_of(tool.get("table"))
    rows = tool.get("args") if tool.has("args") else owner.get("args")
    keys = _keys(tool)
    if word != "upsert" or not isinstance(rows, Map) or table is None or not _TABLE.match(table):
        hint = "write `query: INSERT … ON CONFLICT … DO UPDATE …` with `params`, or `copy: { mode: upsert }` for many rows"
        page.refuse(mode, f"`mode: {word}` cannot be written as SQL here", hint)
        return
    columns = [str(entry.key) for entry in rows.entries]
    if not keys or not all(_COLUMN.match(name) for name in (*columns, *keys)):
        page.refuse(mode, "an upsert needs `key`: columns of a unique index", "add key: <column>")
        return
    for name in ("mode", "key", "keys", "table"):
        tool.take(name)
    owner.take("table")
    entry = tool.take("args") or owner.take("args")
    assert entry is not None
    sql = Entry(
        "query", Text(_sql(table, columns, keys), style="|"), "query", line=mode.line, column=mode.column
    )
    entry.key = entry.raw_key = "params"
    tool.entries += [sql, entry]


def _keys(tool: Map) -> list[str]:
    given = tool.get("key", "keys")
    found = plain(given)
    names = found if isinstance(given, List) else str(found or "").split(",")
    return [str(name).strip() for name in names if str(name).strip()]


def _sql(table: str, columns: list[str], keys: list[str]) -> str:
    values = ", ".join(f"%({name})s" for name in columns)
    rest = [name for name in columns if name not in keys]
    updates = ", ".join(f"{name} = EXCLUDED.{name}" for name in rest)
    then = f"DO UPDATE SET {updates}" if rest else "DO NOTHING"
    lines = [
        f"INSERT INTO {table} ({', '.join(columns)})",
        f"VALUES ({values})",
        f"ON CONFLICT ({', '.join(keys)}) {then}",
    ]
    return "\n".join(lines) + "\n"


RULE = Rule("sink-upsert", "An upsert is SQL with bound values; an insert needs no `mode`.", apply)
