"""Settings of http that say whether a certificate is verified."""

from __future__ import annotations

from noetl.formatting.nodes import plain
from noetl.migration.page import Page, kind_of, remove
from noetl.migration.rule import Rule

_NAMES = ("verify_ssl", "ssl_verify", "verify")


def apply(page: Page) -> None:
    """Leave them out: each certificate is verified."""
    for tool in page.tools():
        for name in _NAMES if kind_of(tool) == "http" else ():
            entry = tool.entry(name)
            if entry is None:
                continue
            if plain(entry.value) is not True:
                page.note(
                    entry,
                    f"`{name}` is left out: a certificate that no authority signed fails the call (`tls_failed`); "
                    "add yours to the trust store",
                    safe=True,
                )
            remove(tool, entry)


RULE = Rule("tls-verified", "A call verifies the certificate of the one that answers, always.", apply)
