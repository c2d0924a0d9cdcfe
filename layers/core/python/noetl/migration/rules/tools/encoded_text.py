"""Statements, commands and code in Base64: ``command_b64``, ``code_b64`` …"""

from __future__ import annotations

import base64
import binascii

from noetl.formatting.nodes import Text, text_of
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_NAMES = ("command", "commands", "code", "query", "sql", "statement")


def apply(page: Page) -> None:
    """Write the text itself."""
    for tool in page.tools():
        for name in _NAMES:
            for key in (f"{name}_b64", f"{name}_base64"):
                entry = tool.entry(key)
                if entry is None or tool.has(name):
                    continue
                text = _decoded(text_of(entry.value))
                if text is None:
                    page.refuse(entry, f"`{key}` is no text in Base64", f"write the text as `{name}`")
                    continue
                entry.key = entry.raw_key = name
                entry.value = Text(text.rstrip("\n") + "\n", style="|")


def _decoded(value: str | None) -> str | None:
    try:
        text = base64.b64decode("".join((value or "").split()), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    return (
        "\n".join(lines)
        if text.strip() and all(line.isprintable() or "\t" in line for line in lines)
        else None
    )


RULE = Rule("encoded-text", "A text is written as it is.", apply)
