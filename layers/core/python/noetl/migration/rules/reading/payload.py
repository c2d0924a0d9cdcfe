"""Templates that read the ``payload`` of the request."""

from __future__ import annotations

from noetl.formatting.nodes import Text, inside, map_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Read the workload, which the payload is merged over.

    A default that is the payload's own key is empty.
    """
    named = {
        str(entry.key).split(".")[-1] for entry in inside(page.root) if entry.key and entry.key != "payload"
    }
    if "payload" in named or "payload" in page.step_names():
        return

    def change(name: str, attribute: str | None) -> tuple[str, bool] | None:
        return ("workload", False) if name == "payload" and attribute else None

    workload = map_of(page.root.get("workload"))
    for entry in workload.entries:
        value = entry.value
        if isinstance(value, Text) and value.value == f"{{{{ payload.{entry.key} }}}}":
            entry.value = Text(None, raw="null")
            page.note(entry, f"`{entry.key}` is null where a request has none")
    page.substitute(change)


RULE = Rule("payload", "The payload of a request is merged over the workload, and read there.", apply)
