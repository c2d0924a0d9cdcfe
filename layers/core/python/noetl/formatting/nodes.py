"""The document for the formatter: values with their style, entries with their comments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class Text:
    """One value.

    ``raw`` is its spelling when it was on one line (or in a folded block), to be printed as it was.
    """

    value: Any
    raw: str | None = None
    style: str = ""
    """``""`` plain, ``'`` or ``"`` quoted, ``|`` or ``>`` block."""
    anchor: str | None = None


@dataclass(slots=True, eq=False)
class Alias:
    name: str


@dataclass(slots=True, eq=False)
class Entry:
    """A key with its value, or an item of a list (``key`` is then None), with its comments.

    ``lead`` is above it (an empty text is a blank line), ``trail`` at the end of its line, ``after`` below it.
    """

    key: str | None
    value: Value
    raw_key: str = ""
    lead: list[str] = field(default_factory=list)
    trail: str | None = None
    after: list[str] = field(default_factory=list)
    gap: bool = False
    """A blank line stood above it."""
    line: int = 0
    column: int = 0


@dataclass(slots=True, eq=False)
class Map:
    entries: list[Entry]
    flow: bool = False
    anchor: str | None = None

    def get(self, *names: str) -> Value | None:
        """Return the value of the first of ``names`` that is there and not null."""
        for name in names:
            found = self.entry(name)
            if found is not None and not (isinstance(found.value, Text) and found.value.value is None):
                return found.value
        return None

    def entry(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.key == name), None)

    def has(self, name: str) -> bool:
        return self.entry(name) is not None

    def keys(self) -> list[str]:
        return [str(entry.key) for entry in self.entries]

    def take(self, name: str) -> Entry | None:
        """Remove an entry and give it, comments and all."""
        found = self.entry(name)
        if found is not None:
            self.entries.remove(found)
        return found

    def put(self, name: str, value: Value) -> Entry:
        """Replace a value, or add an entry at the end."""
        found = self.entry(name)
        if found is None:
            found = Entry(name, value, raw_key=name)
            self.entries.append(found)
        found.value = value
        return found

    def rename(self, name: str, new: str) -> None:
        found = self.entry(name)
        if found is not None:
            found.key = found.raw_key = new


@dataclass(slots=True, eq=False)
class List:
    entries: list[Entry]
    flow: bool = False
    anchor: str | None = None

    def values(self) -> list[Value]:
        return [entry.value for entry in self.entries]


Value = Text | Map | List | Alias


@dataclass(slots=True, eq=False)
class Document:
    root: Map
    start: bool = False
    """It began with ``---``."""
    tail: list[str] = field(default_factory=list)
    anchors: bool = False


def text_of(value: Value | None) -> str | None:
    return value.value if isinstance(value, Text) and isinstance(value.value, str) else None


def map_of(value: Value | None) -> Map:
    """Return ``value`` when it is a mapping, else an empty one."""
    return value if isinstance(value, Map) else Map([])


def items_of(value: Value | None) -> list[Value]:
    return value.values() if isinstance(value, List) else []


LAST = ("on_success", "on_failure", "finally")
"""Keys of the root that hold tasks of the end."""


def last_tools(root: Map) -> list[Value]:
    """Return what runs at the end: tasks, lists of them, or the ``tool`` of a mapping."""
    found = [root.get(key) for key in LAST]
    return [
        tool if isinstance(tool, Map) and tool.has("kind") else map_of(tool).get("tool") or tool
        for tool in found
        if tool is not None
    ]


def inside(value: Value) -> Iterator[Entry]:
    """Yield every entry of a value, at any depth, in the order of the text."""
    if isinstance(value, (Map, List)):
        for entry in value.entries:
            yield entry
            yield from inside(entry.value)


def comments(entry: Entry) -> list[str]:
    """Return the comments of an entry itself."""
    return [*entry.lead, *([entry.trail] if entry.trail else []), *entry.after]


def has_comments(value: Value) -> bool:
    return any(any(comments(entry)) for entry in inside(value))


def made(value: Any, *, flow: bool = True) -> Value:
    """Make a value from plain data; a node in it stays as it is."""
    if isinstance(value, (Text, Map, List, Alias)):
        return value
    if isinstance(value, dict):
        return Map([Entry(key, made(item, flow=flow), raw_key=key) for key, item in value.items()], flow)
    if isinstance(value, (list, tuple)):
        return List([Entry(None, made(item, flow=flow)) for item in value], flow)
    return Text(value)


def plain(value: Value | None) -> Any:
    """Return the data of a value; an alias is its name."""
    if isinstance(value, Map):
        return {entry.key: plain(entry.value) for entry in value.entries}
    if isinstance(value, List):
        return [plain(item) for item in value.values()]
    if isinstance(value, Alias):
        return f"*{value.name}"
    return None if value is None else value.value


def copied(value: Value) -> Value:
    """Copy a value without comments, in nodes of its own."""
    if isinstance(value, Map):
        return Map([Entry(e.key, copied(e.value), raw_key=e.raw_key) for e in value.entries], value.flow)
    if isinstance(value, List):
        return List([Entry(None, copied(e.value)) for e in value.entries], value.flow)
    if isinstance(value, Alias):
        return Alias(value.name)
    return Text(value.value, value.raw, value.style)
