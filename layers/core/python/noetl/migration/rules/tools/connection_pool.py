"""Settings of a pool of connections on a tool that runs SQL."""

from __future__ import annotations

from noetl.dsl.rows_as_list import SQL_KINDS
from noetl.formatting.nodes import Map
from noetl.migration.page import Page, kind_of, remove
from noetl.migration.rule import Rule

_SETTINGS = frozenset({"name", "timeout", "max_size", "min_size", "max_idle", "max_lifetime", "max_waiting"})


def apply(page: Page) -> None:
    """Leave them out: a worker keeps its connections itself."""
    for tool in page.tools():
        entry = tool.entry("pool")
        if kind_of(tool) not in SQL_KINDS or entry is None or not isinstance(entry.value, Map):
            continue
        if {str(one.key) for one in entry.value.entries} <= _SETTINGS:
            page.note(entry, "`pool` is left out: a worker keeps connections by credential", safe=True)
            remove(tool, entry)


RULE = Rule("connection-pool", "Connections are kept by the worker, so a task has no `pool`.", apply)
