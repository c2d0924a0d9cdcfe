"""Payloads of ``next`` under other names: ``data``, ``with``, ``params``."""

from __future__ import annotations

from noetl.formatting.nodes import List, Map
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_OTHER = ("data", "with", "params", "payload")
_GIVEN = ("args", "input")


def apply(page: Page) -> None:
    """Call what a step hands to the next one ``args``."""
    for one in page.maps():
        for entry in one.entries:
            targets = entry.value.values() if isinstance(entry.value, List) else [entry.value]
            if entry.key not in ("next", "arcs"):
                continue
            for target in targets:
                if not isinstance(target, Map) or not target.has("step"):
                    continue
                given = [name for name in _OTHER if target.has(name)]
                if len(given) == 1 and not any(target.has(name) for name in _GIVEN):
                    target.rename(given[0], "args")


RULE = Rule("next-payload", "What a step hands to the next one belongs in `args`.", apply)
