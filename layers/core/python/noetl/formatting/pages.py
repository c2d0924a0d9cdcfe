"""``call`` with overrides, rewritten as a jump to the task itself.

What changes is kept in ``iter`` and read with a default.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from noetl.domain.kinds import KindSpec
from noetl.dsl.expressions import has_template
from noetl.formatting.nodes import Entry, Map, Text, Value, plain
from noetl.formatting.templates import NoSpellingError, expression_of
from noetl.formatting.unparse import quote
from noetl.formatting.words import after_call, reworded


@dataclass(slots=True)
class Pages:
    """The calls of one task. ``names`` are those of ``iter`` that are taken."""

    tool: Map
    label: str
    spec: KindSpec | None
    names: set[str]
    turned: dict[tuple[str, ...], str] = field(default_factory=dict)

    def turn(self, overrides: Map) -> list[Entry]:
        """Return the writes of ``iter`` that make the next call differ by ``overrides``.

        Raises NoSpellingError.
        """
        if overrides.has("step"):
            raise NoSpellingError("`call` goes to another step")
        return self._leaves(overrides, self.tool, ())

    def _leaves(self, overrides: Map, below: Map, path: tuple[str, ...]) -> list[Entry]:
        found: list[Entry] = []
        for entry in overrides.entries:
            key = str(entry.key)
            if not path and self.spec is not None and key in self.spec.raw_fields + self.spec.sql_fields:
                raise NoSpellingError(f"`call` replaces `{key}`, whose text is not an ordinary value")
            place = below.entry(key)
            if place is None:
                raise NoSpellingError(
                    f"`call` adds `{'.'.join((*path, key))}`, which the first call does not have"
                )
            if isinstance(entry.value, Map) and isinstance(place.value, Map):
                found += self._leaves(entry.value, place.value, (*path, key))
            elif isinstance(entry.value, Map) or isinstance(place.value, Map):
                raise NoSpellingError("`call` replaces a mapping by something else")
            else:
                found.append(self._leaf((*path, key), place, entry.value))
        return found

    def _leaf(self, path: tuple[str, ...], place: Entry, value: Value) -> Entry:
        name = self.turned.get(path)
        if name is None:
            name = self._name(path[-1])
            self.turned[path] = name
            place.value = Text(f"{{{{ iter.{name} | default({_literal(plain(place.value))}) }}}}")
        return Entry(f"iter.{name}", reworded(value, after_call), f"iter.{name}")

    def _name(self, wanted: str) -> str:
        name = base = re.sub(r"\W", "_", wanted)
        number = 1
        while name in self.names:
            number += 1
            name = f"{base}_{number}"
        self.names.add(name)
        return name


def _literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if not isinstance(value, str):
        raise NoSpellingError("`call` replaces a list")
    if not has_template(value):
        return quote(value)
    inner = expression_of(value)
    if inner is None:
        raise NoSpellingError("`call` replaces a text with a template inside")
    return inner
