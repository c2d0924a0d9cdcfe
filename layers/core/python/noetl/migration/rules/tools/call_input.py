"""Input of code, workbook tasks and containers under ``data``, ``params`` or ``context``."""

from __future__ import annotations

from noetl.formatting.nodes import Map
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_CODE = ("python", "workbook", "noop", "shell", "script")
_INPUT = ("args", "input", "with")
_OTHER = ("data", "params", "context", "inputs", "kwargs")


def apply(page: Page) -> None:
    """Call it ``args``."""
    for tool in page.tools():
        if kind_of(tool) not in _CODE or any(tool.has(name) for name in _INPUT):
            continue
        given = [name for name in _OTHER if isinstance(tool.get(name), Map)]
        if len(given) == 1:
            tool.rename(given[0], "args")


RULE = Rule("call-input", "The input of code belongs in `args`.", apply)
