"""The seam between templates and the places that evaluate them.

``noetl.templating`` offers (see its ``__init__``):

* ``render(node, scope) -> Any``: a ``Node`` of a Program to plain JSON values (``Expr`` keeps types, ``Text`` is str,
  ``Sql`` yields ``RenderedSql``). Values that are exactly a reference to a large result stay references (``ResultRef`` mappings)
  unless an attribute of them is touched.
* ``is_true(node, scope) -> bool``: a guard.
* ``render_sql(node, scope, params)``: a ``Sql`` node whose author brought ``%(name)s`` placeholders.
* ``check(node)``: raises the errors of a node that are known without data (syntax, unknown filters, blocks that do not exist).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec


class Scope(Protocol):
    """The source of names. Lookups are lazy: a name that no template touches costs nothing."""

    def lookup(self, name: str) -> Any:
        """Return the value of a bare name (``ctx``, ``fetch``, ``workload``, ``x`` …).

        Raises KeyError when it is unknown.
        """

    def names(self) -> Iterable[str]:
        """Known names, for "did you mean"."""


class RenderedStatement(msgspec.Struct, frozen=True):
    """One SQL statement with ``%(name)s`` placeholders and its parameters, psycopg style.

    ``%%`` is a percent sign when there are parameters; without any, the text is taken as it is.
    """

    text: str
    params: Mapping[str, Any] = msgspec.field(default_factory=dict)


class RenderedSql(msgspec.Struct, frozen=True):
    """A SQL text, split into statements. All run in one transaction."""

    statements: tuple[RenderedStatement, ...]


class MappingScope(msgspec.Struct, frozen=True):
    """A scope over a plain mapping, with an optional parent."""

    values: Mapping[str, Any]
    parent: Scope | None = None

    def lookup(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if self.parent is None:
            raise KeyError(name)
        return self.parent.lookup(name)

    def names(self) -> Iterable[str]:
        yield from self.values
        if self.parent is not None:
            yield from self.parent.names()


Hydrate = Callable[[Mapping[str, Any]], Any]
"""Loads the value behind a ``ResultRef`` mapping. One with an attribute ``lazily`` (another of its kind) passes long lists to templates by that:
as a ``PartedList``, of which they read the parts they touch."""
