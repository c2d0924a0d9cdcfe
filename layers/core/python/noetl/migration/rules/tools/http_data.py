"""``data`` of an http tool: the query of a GET, or ``query`` and ``body`` in one mapping."""

from __future__ import annotations

from noetl.formatting.nodes import Map, text_of
from noetl.migration.page import Page, kind_of, named, replace
from noetl.migration.rule import Rule

_PARTS = {"query": "params", "params": "params", "body": "body", "headers": "headers"}


def apply(page: Page) -> None:
    """Write ``params`` and ``body``: today ``data`` is another word for the body alone."""
    for tool in page.tools():
        entry = tool.entry("data")
        if (
            kind_of(tool) != "http"
            or entry is None
            or not isinstance(entry.value, Map)
            or not entry.value.entries
        ):
            continue
        keys = {str(one.key) for one in entry.value.entries}
        if keys <= set(_PARTS) and not any(tool.has(_PARTS[key]) for key in keys):
            replace(tool, entry, [named(_PARTS[str(one.key)], one.value, one) for one in entry.value.entries])
        elif (text_of(tool.get("method")) or "GET").upper() in ("GET", "DELETE") and not tool.has("params"):
            tool.rename("data", "params")


RULE = Rule("http-data", "The query of a request belongs in `params`, its body in `body`.", apply)
