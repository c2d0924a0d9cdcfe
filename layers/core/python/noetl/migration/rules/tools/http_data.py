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
        method = (text_of(tool.get("method")) or "GET").upper()
        if keys <= set(_PARTS) and not any(tool.has(_PARTS[key]) for key in keys):
            if method != "GET" or not all(
                isinstance(one.value, Map) for one in entry.value.entries if one.key != "body"
            ):
                page.note(entry, "the keys of `data` are parts of the request; they may be its body itself")
            replace(tool, entry, [named(_PARTS[str(one.key)], one.value, one) for one in entry.value.entries])
        elif method in ("GET", "DELETE") and not tool.has("params"):
            if method == "DELETE":
                page.note(entry, "`data` of a DELETE becomes its query; it may be its body")
            tool.rename("data", "params")


RULE = Rule("http-data", "The query of a request belongs in `params`, its body in `body`.", apply)
