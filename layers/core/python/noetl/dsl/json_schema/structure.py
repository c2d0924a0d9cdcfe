"""The structure of a schema without a value: references, patterns, counts of keywords.

The counts are of keywords that apply to one value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.domain.sizes.table import SCHEMA_CHECKS
from noetl.domain.text.excerpt import excerpt
from noetl.dsl.json_schema.patterns import PatternError, compile_pattern

Path = tuple[Any, ...]
_DATA = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose value is data, not a schema."""
_NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords below which keys are names."""
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "extends", "disallow", "not", "if", "then", "else")
"""Keywords whose schemas apply to the value itself, not to what it holds."""
_DEEPEST = 100
"""Schemas that apply to the same value, one inside another."""
_RELATIVE = ("$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
"""Keywords that give places names: to find them again the library walks over the whole schema."""
_WALK = 4
"""Operations that walking over one keyword takes."""


class SchemaProblem(msgspec.Struct, frozen=True):
    """Why a schema cannot be used. ``path``: where in it."""

    path: Path
    message: str
    hint: str | None = None


class _Found(Exception):  # noqa: N818 - a signal inside this module
    """Ends the walk with the problem."""

    def __init__(self, problem: SchemaProblem) -> None:
        self.problem = problem


def find_problem(schema: dict[str, Any]) -> SchemaProblem | None:
    """Find the first reference without a target, unusable pattern, or crowded place.

    Too many keywords apply to one value at a crowded place.
    """
    for path, key, value in _parts(schema, (), within=False):
        if key == "pattern" or (path and path[-1] == "patternProperties"):
            problem = _pattern_problem((*path, key), value if key == "pattern" else key)
            if problem is not None:
                return problem
    try:
        expansion = _Expansion(schema)
    except (AttributeError, TypeError, ValueError) as error:
        # It fits the schema of its draft, and has a shape that the library does not expect: a mapping as `extends` of draft 3.
        return SchemaProblem((), f"its parts cannot be read: {error}", "write it in draft 2020-12")
    return expansion.problem()


def lookup_cost(schema: dict[str, Any]) -> int:
    """Operations that following one reference takes: one, unless places have names."""
    size, named = 0, False
    for path, key, _ in _parts(schema, (), within=False):
        size += 1
        named = named or (bool(path) and key in _RELATIVE)
    return _WALK * size if named else 1


def _pattern_problem(path: Path, pattern: Any) -> SchemaProblem | None:
    if not isinstance(pattern, str):
        return None
    try:
        compile_pattern(pattern)
    except PatternError as error:
        return SchemaProblem(
            path, f"the pattern {excerpt(pattern, 80)!r} cannot be used: {error.message}", error.hint
        )
    return None


def _parts(schema: Any, path: Path, *, within: bool) -> Iterator[tuple[Path, Any, Any]]:
    """Yield every keyword of every schema in it, and every name of ``patternProperties``.

    Each is (place of the schema, key, value).

    ``within``: nothing of a schema that has an ``$id`` of its own; references in it are relative to that.
    """
    if isinstance(schema, list):
        for number, entry in enumerate(schema):
            yield from _parts(entry, (*path, number), within=within)
    if not isinstance(schema, dict) or (within and path and isinstance(schema.get("$id"), str)):
        return
    names = bool(path) and path[-1] in _NAMES
    for key, value in schema.items():
        if not names or path[-1] == "patternProperties":
            yield path, key, value
        if names or key not in _DATA:
            yield from _parts(value, (*path, key), within=within)


class _Expansion:
    """Follows references, and counts the keywords that apply to one value."""

    def __init__(self, schema: dict[str, Any]) -> None:
        from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY, specification_with

        self._schema = schema
        dialect = specification_with(str(schema.get("$schema", "")), default=DRAFT202012)
        resource = dialect.create_resource(schema)
        uri = resource.id() or ""
        self._resolver = EMPTY_REGISTRY.with_resource(uri, resource).crawl().resolver(uri)
        self._counted: dict[int, int] = {}
        self._open: set[int] = set()

    def problem(self) -> SchemaProblem | None:
        try:
            places = [
                (path, value) for path, key, value in _parts(self._schema, (), within=True) if key == "$ref"
            ]
            for path, reference in places:
                self._target(reference, (*path, "$ref"))
            for path, reference in places:
                self._count(self._target(reference, path), (*path, "$ref"), 0)
            self._count(self._schema, (), 0)
        except _Found as found:
            return found.problem
        return None

    def _target(self, reference: Any, path: Path) -> Any:
        from referencing.exceptions import Unresolvable

        if not isinstance(reference, str):
            return None
        try:
            return self._resolver.lookup(reference).contents
        except (Unresolvable, ValueError):
            raise _Found(SchemaProblem(path, f"{reference!r} leads nowhere: nothing is fetched")) from None

    def _count(self, schema: Any, path: Path, depth: int) -> int:
        if not isinstance(schema, dict):
            return 1
        known = self._counted.get(id(schema))
        if known is not None:
            return known
        if id(schema) in self._open or depth > _DEEPEST:
            message = (
                "it leads back to itself"
                if depth <= _DEEPEST
                else "schemas for one value are nested too deep"
            )
            raise _Found(SchemaProblem(path, f"{message}: checking a value would never end"))
        self._open.add(id(schema))
        total = len(schema)
        for key, inside in self._same_value(schema, path):
            total += self._count(inside, (*path, *key), depth + 1)
        self._open.discard(id(schema))
        if total > SCHEMA_CHECKS.value:
            raise _Found(
                SchemaProblem(
                    path,
                    f"more than {SCHEMA_CHECKS.value} keywords apply to one value, with every `$ref` followed",
                    "let fewer branches of `anyOf`, `oneOf` and `allOf` lead to the same schemas",
                )
            )
        self._counted[id(schema)] = total
        return total

    def _same_value(self, schema: dict[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
        if path and isinstance(schema.get("$id"), str):
            return
        if isinstance(schema.get("$ref"), str):
            yield ("$ref",), self._target(schema["$ref"], (*path, "$ref"))
        for key in _SAME_VALUE:
            inside = schema.get(key)
            if isinstance(inside, list):
                yield from (((key, number), one) for number, one in enumerate(inside))
            elif inside is not None:
                yield (key,), inside
        dependent = schema.get("dependentSchemas")
        if isinstance(dependent, dict):
            yield from (((("dependentSchemas", name)), one) for name, one in dependent.items())
