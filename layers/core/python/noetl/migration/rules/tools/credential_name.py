"""Credentials that are named by ``credential``, or by a mapping around their name."""

from __future__ import annotations

from noetl.formatting.nodes import Map, Value, text_of
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_NAMED = frozenset({"postgres", "duckdb", "snowflake", "http", "gcs", "s3", "transfer"})
_AROUND = frozenset({"type", "tool", "source", "credential", "key", "name"})


def apply(page: Page) -> None:
    """Write ``auth: name``."""
    for tool in page.tools():
        if kind_of(tool) not in _NAMED:
            continue
        if tool.has("credential") and not tool.has("auth"):
            tool.rename("credential", "auth")
        for owner in (tool, tool.get("source"), tool.get("target")):
            if not isinstance(owner, Map):
                continue
            auth = owner.entry("auth")
            name = _name(auth.value) if auth is not None else None
            if auth is not None and name is not None and kind_of(tool) not in ("http", "duckdb"):
                auth.value = name


def _name(value: Value) -> Value | None:
    if isinstance(value, Map) and len(value.entries) == 1 and isinstance(value.entries[0].value, Map):
        return _name(value.entries[0].value)
    if not isinstance(value, Map) or not set(value.keys()) <= _AROUND:
        return None
    if value.has("source") and text_of(value.get("source")) != "credential":
        return None
    found = value.get("credential", "key", "name")
    return found if text_of(found) is not None else None


RULE = Rule("credential-name", "`auth` is the name of a credential.", apply)
