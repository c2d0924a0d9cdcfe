"""Names in ``set`` without a scope."""

from __future__ import annotations

from noetl.dsl.lowering.values import SCOPES
from noetl.formatting.nodes import map_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Write them to the context, where a bare name is read from."""
    for one in page.maps():
        for entry in one.entries:
            if entry.key != "set":
                continue
            for line in map_of(entry.value).entries:
                scope, dot, _ = str(line.key).partition(".")
                if scope not in SCOPES and not dot:
                    line.key = line.raw_key = f"ctx.{line.key}"


RULE = Rule("bare-set", "A name that is set says its scope: `ctx.x` is what a bare name reads.", apply)
