"""Kinds that have another name today."""

from __future__ import annotations

from noetl.formatting.nodes import Text
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_NAMES = {
    "requests": "http",
    "rest": "http",
    "postgresql": "postgres",
    "pg": "postgres",
    "task": "workbook",
    "secret": "secrets",
    "secret_manager": "secrets",
    "bash": "shell",
    "sub_playbook": "playbook",
    "playbooks": "playbook",
    "event_log": "noop",
    "save": "noop",
    "router": "noop",
    "end": "noop",
    "start": "noop",
}


def apply(page: Page) -> None:
    """Use the name of today."""
    for tool in page.tools():
        new = _NAMES.get(kind_of(tool))
        entry = tool.entry("kind")
        if new is not None and entry is not None and kind_of(tool) not in page.kinds.names():
            entry.value = Text(new)


RULE = Rule("kind-names", "A kind has one name.", apply)
