"""Values of a Program that may hold templates.

They are literals, expressions, texts, SQL, and mappings and lists of them.

``noetl.dsl.program`` offers all of this too; it is where the rest of the code takes it from.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Pos(msgspec.Struct, frozen=True, array_like=True):
    """A place in the playbook; 1-based, 0 for what the compiler made."""

    line: int = 0
    column: int = 0


class LiteralNode(msgspec.Struct, frozen=True, tag="lit", tag_field="t"):
    """A value without any template inside."""

    value: Any


class Expr(msgspec.Struct, frozen=True, tag="expr", tag_field="t", omit_defaults=True):
    """A string that is exactly one ``{{ … }}``: keeps the type of its value.

    ``source`` is the expression between the braces. ``reads`` are the names it touches, see ``Reads``.
    """

    source: str
    pos: Pos = Pos()
    reads: tuple[str, ...] = ()
    lenient: bool = False
    """A guard in which a name that is not defined is false."""
    chooses: bool = False
    """A name without a value is false where it is the test of an inline ``if``."""


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="t", omit_defaults=True):
    """A string with templates in it (or ``{% … %}``): renders to text.

    ``source`` is the whole string.
    """

    source: str
    pos: Pos = Pos()
    reads: tuple[str, ...] = ()
    lenient: bool = False
    chooses: bool = False


class Sql(msgspec.Struct, frozen=True, tag="sql", tag_field="t"):
    """A SQL text: its expressions become bound parameters (noetl.templating.sql)."""

    source: str
    pos: Pos = Pos()
    reads: tuple[str, ...] = ()


class Map(msgspec.Struct, frozen=True, tag="map", tag_field="t"):
    entries: tuple[tuple[str, Node], ...]
    """Keys are literal text; a template in a key is refused by the checks."""


class Seq(msgspec.Struct, frozen=True, tag="seq", tag_field="t"):
    items: tuple[Node, ...]


Node = LiteralNode | Expr | Text | Sql | Map | Seq


def as_written(node: Node) -> Any:
    """Return a value with its templates as the texts that they are."""
    match node:
        case LiteralNode(value):
            return value
        case Map(entries):
            return {name: as_written(entry) for name, entry in entries}
        case Seq(items):
            return [as_written(item) for item in items]
        case Expr(source):
            return f"{{{{ {source} }}}}"
        case Text(source) | Sql(source):
            return source
