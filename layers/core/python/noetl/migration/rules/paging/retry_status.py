"""``retry`` of an HTTP call by a list of status codes."""

from __future__ import annotations

import json
from typing import Any

from noetl.formatting.nodes import Text, map_of, plain
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_OTHERS = ("when", "retry_when", "until", "stop_when")


def apply(page: Page) -> None:
    """Write ``when`` and ``delay``."""
    for tool in page.tools():
        retry = map_of(tool.get("retry"))
        if kind_of(tool) != "http" or not retry.entries:
            continue
        codes = retry.entry("retry_on_status")
        if codes is not None:
            found = plain(codes.value)
            if not _are_codes(found) or any(retry.has(name) for name in _OTHERS):
                page.refuse(
                    codes,
                    "`retry_on_status` is not a list of status codes, or is beside a guard",
                    'write when: "{{ output.error.status in [ … ] }}"',
                )
                continue
            codes.value = Text(f"{{{{ output.error.status in {json.dumps(found)} }}}}", style='"')
            retry.rename("retry_on_status", "when")
        if retry.has("backoff_seconds") and not retry.has("delay") and not retry.has("initial_delay"):
            retry.rename("backoff_seconds", "delay")


def _are_codes(found: Any) -> bool:
    return isinstance(found, list) and bool(found) and all(type(code) is int for code in found)


RULE = Rule("retry-status", "A call is retried `when` its error has one of these status codes.", apply)
