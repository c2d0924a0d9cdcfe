"""``data.x`` and ``params.x`` in the SQL of a sink: what the sink itself writes."""

from __future__ import annotations

from noetl.formatting.nodes import Map, Text, map_of
from noetl.formatting.spelling import rename
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_OTHER = ("data", "params")


def apply(page: Page) -> None:
    """Read them as ``args``, which is what they are called."""
    for owner in page.maps():
        sink = map_of(owner.get("sink"))
        tool = map_of(sink.get("tool"))
        query = tool.get("query")
        given = [one for one in (sink.get("args"), tool.get("args")) if isinstance(one, Map)]
        if isinstance(query, Text) and given:
            _read_args(query, {str(one.key) for one in given[0].entries})


def _read_args(query: Text, names: set[str]) -> None:
    def change(name: str, attribute: str | None) -> tuple[str, bool] | None:
        return ("args", False) if name in _OTHER and attribute in names else None

    rename(query, change)


RULE = Rule("sink-names", "The SQL of a sink reads what it writes as `args`.", apply)
