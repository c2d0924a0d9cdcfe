"""``retry`` by a list of status codes, or of kinds of errors."""

from __future__ import annotations

import json
from typing import Any

from noetl.formatting.nodes import Map, Text, map_of, plain
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_KINDS = {
    **{kind: (kind,) for kind in ("rate_limit", "server_error", "client_error", "not_found")},
    **dict.fromkeys(("timeout", "timeout_error"), ("timeout", "db_timeout")),
    **dict.fromkeys(("connection", "connection_error", "network"), ("connection", "db_connection")),
    "5xx": ("server_error",),
}
"""What older releases called a kind of error → its names here."""
_OTHERS = ("when", "retry_when", "until", "stop_when")


def apply(page: Page) -> None:
    """Write ``when`` and ``delay``."""
    for owner in (*page.tools(), *page.steps()):
        retry = map_of(owner.get("retry"))
        _of_kinds(page, retry)
        backoff = retry.entry("backoff")
        if backoff is not None and type(plain(backoff.value)) in (int, float) and not retry.has("delay"):
            retry.rename("backoff", "delay")
            page.note(backoff, "`backoff` is a number: it is taken for the seconds before a call", safe=True)
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


def _of_kinds(page: Page, retry: Map) -> None:
    """Write ``when`` for ``retry_on``, a list of kinds of errors."""
    entry = retry.entry("retry_on")
    if entry is None:
        return
    words = plain(entry.value)
    words = [words] if isinstance(words, str) else words
    known = isinstance(words, list) and bool(words) and all(word in _KINDS for word in words)
    if not known or any(retry.has(name) for name in _OTHERS):
        page.refuse(
            entry,
            "`retry_on` is not a list of known kinds of errors, or is beside a guard",
            'write when: "{{ output.error.kind in [ … ] }}"; docs/dsl/failures.md has the kinds',
        )
        return
    kinds = list(dict.fromkeys(kind for word in words for kind in _KINDS[word]))
    entry.value = Text(f"{{{{ output.error.kind in {json.dumps(kinds)} }}}}".replace('"', "'"), style='"')
    retry.rename("retry_on", "when")


def _are_codes(found: Any) -> bool:
    return isinstance(found, list) and bool(found) and all(type(code) is int for code in found)


RULE = Rule(
    "retry-status", "A call is retried `when` its error has one of these status codes or kinds.", apply
)
