"""Databases that the input of ``postgres`` names, which is a credential's part."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Map, Text, map_of, plain, text_of
from noetl.formatting.templates import names_in
from noetl.migration.page import Page, kind_of, named, remove, statements_of
from noetl.migration.rule import Rule

_PLAIN = {name: name for name in ("host", "port", "user", "password", "dbname")}
_PARTS = {
    "db_host": "host",
    "db_port": "port",
    "db_user": "user",
    "db_password": "password",
    "db_name": "dbname",
    **_PLAIN,
    "database": "dbname",
}
_INPUT = ("input", "args", "with")
_WORDS = re.compile(r"\W+")


def apply(page: Page) -> None:
    """Name a credential in ``auth``; a note says what it has to hold."""
    names: dict[str, str] = {}
    for tool in page.tools():
        if kind_of(tool) == "postgres" and not tool.has("auth") and not tool.has("credential"):
            for name in _INPUT:
                given = tool.get(name)
                if isinstance(given, Map) and _is_connection(given) and not _are_read(tool):
                    _name(page, tool, given, names)


def _name(page: Page, tool: Map, given: Map, names: dict[str, str]) -> None:
    parts = [entry for entry in given.entries if entry.key in _PARTS]
    place = given.entries.index(parts[0])
    connection = repr([(entry.key, plain(entry.value)) for entry in parts])
    root = page.root
    playbook = text_of(map_of(root.get("metadata")).get("name")) or text_of(root.get("name")) or "playbook"
    base = f"{_WORDS.sub('_', playbook)}_db"
    name = names.setdefault(connection, f"{base}_{len(names) + 1}" if names else base)
    page.note(
        parts[0],
        f"register the credential `{name}` of type postgres with what is named here: "
        f"{', '.join(_PARTS[str(entry.key)] for entry in parts)}",
    )
    owner = next(entry for entry in tool.entries if entry.value is given)
    at = tool.entries.index(owner)
    tool.entries.insert(at, named("auth", Text(name)))
    for entry in parts:
        remove(given, entry)
    if not given.entries:
        remove(tool, owner)
    elif place == 0 and not given.flow:
        given.entries[0].gap = False


def _is_connection(given: Map) -> bool:
    return given.has("db_host") or (given.has("host") and given.has("password"))


def _are_read(tool: Map) -> bool:
    """Return whether the SQL itself reads a part of the connection."""
    texts = [text.value for text in statements_of(tool)]
    return any(not _PARTS.keys().isdisjoint(names_in(text)) for text in texts)


RULE = Rule("connection-input", "The database of `postgres` is that of a credential.", apply)
