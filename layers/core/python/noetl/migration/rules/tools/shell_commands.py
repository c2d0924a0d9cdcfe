"""``cmds`` of a shell tool."""

from __future__ import annotations

from noetl.formatting.nodes import Entry, List, Text, plain
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule


def apply(page: Page) -> None:
    """Write one script of them; they ran one after the other, and the first failure ended them."""
    for tool in page.tools():
        if kind_of(tool) != "shell":
            continue
        for name in ("cmds", "commands", "cmd"):
            entry = tool.entry(name)
            if entry is None or tool.has("command"):
                continue
            lines = _lines(entry)
            if lines is None:
                continue
            if any("{{" in line for line in lines):
                hint = 'hand the values over: env: { NAME: "{{ … }}" }, and read "$NAME" in the script'
                page.refuse(entry, "a template in a shell command would be run as code", hint)
                continue
            entry.key = entry.raw_key = "command"
            if isinstance(entry.value, List):
                entry.value = Text("\n".join(["set -e", *lines]) + "\n", style="|")


def _lines(entry: Entry) -> list[str] | None:
    value = plain(entry.value)
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        return [str(line) for line in value]
    return None


RULE = Rule("shell-commands", "A shell tool has one script, in `command`.", apply)
