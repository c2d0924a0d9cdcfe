"""Settings of tracing at the root."""

from __future__ import annotations

from noetl.migration.page import Page, remove
from noetl.migration.rule import Rule

_KEYS = ("tracing", "telemetry", "observability", "logging")


def apply(page: Page) -> None:
    """Remove them: traces and logs are settings of the deployment."""
    for name in _KEYS:
        entry = page.root.entry(name)
        if entry is not None:
            remove(page.root, entry)
            page.note(
                entry, f"`{name}` is left out: traces and logs are settings of the deployment", safe=True
            )


RULE = Rule("telemetry", "Traces and logs are settings of the deployment, not of a playbook.", apply)
