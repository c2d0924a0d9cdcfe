"""Keywords of JSON Schema with counted operations and patterns in linear time.

They replace the unbounded checks of ``jsonschema``.

Where it costs a square (``uniqueItems``, the ``unevaluated…`` keywords), Python's ``re`` (patterns) or digits (``multipleOf``) this module has
its own; everything else is the library's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache
from typing import Any

from jsonschema import ValidationError, validators
from referencing.jsonschema import lookup_recursive_ref

from noetl.dsl.json_schema.effort import Effort
from noetl.dsl.json_schema.patterns import compile_pattern

Errors = Iterator[ValidationError]
_effort: ContextVar[Effort] = ContextVar("effort")


@contextmanager
def counting(effort: Effort) -> Iterator[None]:
    """Have ``effort`` count what is checked inside."""
    token = _effort.set(effort)
    try:
        yield
    finally:
        _effort.reset(token)


@lru_cache(None)
def counted(dialect: Any) -> Any:
    """Return a dialect's validator with counted keywords.

    It stays in that dialect: a ``$schema`` further down changes nothing.
    """
    keywords = {name: _counted(check) for name, check in {**dialect.VALIDATORS, **_own(dialect)}.items()}
    made = validators.extend(dialect, keywords)  # type: ignore[no-untyped-call]

    def evolve(self: Any, **changes: Any) -> Any:
        _effort.get().spend(1)
        given = {"schema": self.schema, "format_checker": None, "registry": self._registry}
        return made(**{**given, "_resolver": self._resolver, **changes})

    made.evolve = evolve
    return made


def _own(dialect: Any) -> dict[str, Callable[..., Any]]:
    """Return the replacements of keywords that the dialect has."""
    own_checks = {
        "$ref": _reference(dialect, "$ref"),
        "$dynamicRef": _reference(dialect, "$dynamicRef"),
        "$recursiveRef": _reference(dialect, "$recursiveRef"),
        "additionalProperties": _additional_properties,
        "const": _weighing(dialect, "const"),
        "enum": _enum(dialect),
        "format": _format,
        "multipleOf": _multiple_of,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "unevaluatedItems": _unevaluated_items,
        "unevaluatedProperties": _unevaluated_properties,
        "uniqueItems": _unique_items,
    }
    return {name: check for name, check in own_checks.items() if name in dialect.VALIDATORS}


def _counted(check: Callable[..., Any]) -> Callable[..., Errors]:
    """Count each application of a keyword, and the value that its problems quote.

    A message holds the value, which may be large.
    """

    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
        effort = _effort.get()
        effort.spend(1 + (_entries(instance) + _entries(value) >> 4))
        effort.enter()
        for error in check(validator, value, instance, schema) or ():
            effort.leave()
            effort.problem(error.message)
            yield error
            effort.enter()
        effort.leave()

    return apply


def _entries(value: Any) -> int:
    return len(value) if isinstance(value, (dict, list)) else 0


def _reference(dialect: Any, name: str) -> Callable[..., Any]:
    follow = dialect.VALIDATORS.get(name)

    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _effort.get().reference(str(value))
        return follow(validator, value, instance, schema)

    return apply


def _weighing(dialect: Any, name: str) -> Callable[..., Any]:
    """Count ``const`` as one comparison with the whole value."""
    compare = dialect.VALIDATORS.get(name)

    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _effort.get().value(value)
        return compare(validator, value, instance, schema)

    return apply


def _enum(dialect: Any) -> Callable[..., Any]:
    compare = dialect.VALIDATORS.get("enum")

    def apply(validator: Any, values: Any, instance: Any, schema: Any) -> Any:
        if isinstance(instance, str) and isinstance(values, list):
            _effort.get().spend(len(values) >> 6)
            if instance in values:
                return ()
        _effort.get().value(values)
        return compare(validator, values, instance, schema)

    return apply


def _format(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    """Accept every ``format``: it describes a text, and refuses nothing."""
    yield from ()


def _multiple_of(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors:
    """Check ``multipleOf`` in decimal digits, as people count money.

    The library divides binary fractions, and 19.99 is then no multiple of 0.01.
    """
    if validator.is_type(instance, "number") and Fraction(repr(instance)) % Fraction(repr(wanted)):
        yield ValidationError(f"{instance!r} is not a multiple of {wanted!r}")


# --- patterns ---


def _matches(pattern: str, text: str) -> bool:
    compiled = compile_pattern(pattern)
    _effort.get().match(compiled.size, text)
    return compiled.found_in(text)


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        _effort.get().spend(len(instance))
        for name, value in instance.items():
            if _matches(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _extra(instance: dict[str, Any], schema: Any) -> list[str]:
    """Names that neither ``properties`` nor ``patternProperties`` speak of."""
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    _effort.get().spend(len(instance) * len(patterns))
    return [
        name for name in instance if name not in named and not any(_matches(one, name) for one in patterns)
    ]


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    extra = _extra(instance, schema)
    if isinstance(wanted, dict):
        for name in extra:
            yield from validator.descend(instance[name], wanted, path=name)
    elif not wanted and extra:
        names = ", ".join(repr(name) for name in sorted(extra))
        if "patternProperties" in schema:
            patterns = ", ".join(repr(one) for one in sorted(schema["patternProperties"]))
            verb = "does" if len(extra) == 1 else "do"
            yield ValidationError(f"{names} {verb} not match any of the regexes: {patterns}")
        else:
            verb = "was" if len(extra) == 1 else "were"
            yield ValidationError(f"Additional properties are not allowed ({names} {verb} unexpected)")


# --- what no other keyword has looked at ---


def _unevaluated_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    left = instance.keys() - set(_looked_at(validator, instance, schema))
    if left:
        names, verb = ", ".join(repr(name) for name in sorted(left)), "was" if len(left) == 1 else "were"
        if wanted is False:
            yield ValidationError(f"Unevaluated properties are not allowed ({names} {verb} unexpected)")
        else:
            yield ValidationError(
                f"Unevaluated properties are not valid under the given schema ({names} {verb} unevaluated and invalid)"
            )


def _unevaluated_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, list):
        return
    looked_at = set(_looked_at(validator, instance, schema))
    left = [item for place, item in enumerate(instance) if place not in looked_at]
    if left:
        items, verb = ", ".join(repr(item) for item in left), "was" if len(left) == 1 else "were"
        yield ValidationError(f"Unevaluated items are not allowed ({items} {verb} unexpected)")


def _looked_at(validator: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Yield the names or places that keywords of ``schema`` have looked at, some repeatedly."""
    if not isinstance(schema, dict):
        return
    effort = _effort.get()
    effort.spend(1 + len(instance))
    effort.enter()
    for found in _looked_at_inside(validator, instance, schema):
        effort.leave()
        yield found
        effort.enter()
    effort.leave()


def _looked_at_inside(validator: Any, instance: Any, schema: Any) -> Iterator[Any]:
    yield from _looked_at_here(validator, instance, schema)
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        if keyword in schema and keyword in validator.VALIDATORS:
            _effort.get().reference(schema[keyword])
            resolver = validator._resolver
            recursive = keyword == "$recursiveRef"
            found = lookup_recursive_ref(resolver) if recursive else resolver.lookup(schema[keyword])
            inside = validator.evolve(schema=found.contents, _resolver=found.resolver)
            yield from _looked_at(inside, instance, found.contents)
    for keyword in ("allOf", "oneOf", "anyOf"):
        for subschema in schema.get(keyword, ()):
            if _valid(validator, instance, subschema):
                yield from _looked_at(validator, instance, subschema)
    if "if" in schema:
        holds = _valid(validator, instance, schema["if"])
        if holds:
            yield from _looked_at(validator, instance, schema["if"])
        yield from _looked_at(validator, instance, schema.get("then" if holds else "else"))
    if isinstance(instance, dict):
        for name, subschema in schema.get("dependentSchemas", {}).items():
            if name in instance:
                yield from _looked_at(validator, instance, subschema)


def _looked_at_here(validator: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Yield what the keywords at this very place look at."""
    if isinstance(instance, dict):
        yield from schema.get("properties", {}).keys() & instance.keys()
        for pattern in schema.get("patternProperties", ()):
            yield from (name for name in instance if _matches(pattern, name))
        if "additionalProperties" in schema:
            yield from _extra(instance, schema)
        if "unevaluatedProperties" in schema:
            rest = schema["unevaluatedProperties"]
            yield from (name for name, value in instance.items() if _valid(validator, value, rest))
        return
    items, places = schema.get("items"), range(len(instance))
    if items is not None and (not isinstance(items, list) or "additionalItems" in schema):
        yield from places
    yield from places[: len(items)] if isinstance(items, list) else ()
    if "prefixItems" in schema and "prefixItems" in validator.VALIDATORS:
        yield from places[: len(schema["prefixItems"])]
    for keyword in ("contains", "unevaluatedItems"):
        if keyword in schema:
            yield from (place for place in places if _valid(validator, instance[place], schema[keyword]))


def _valid(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


# --- entries that are the same ---


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors:
    if not wanted or not isinstance(instance, list):
        return
    _effort.get().value(instance)
    seen = {json.dumps(_plain(item), sort_keys=True) for item in instance}
    if len(seen) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _plain(value: Any) -> Any:
    """Use one spelling for equal numbers: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
