"""The JSON Schema of a playbook's ``input``: whether it is one, and what of a payload does not fit it.

Nothing is ever fetched: a ``$ref`` leads to a place of the same schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noetl.domain.errors import InvalidInputError

MOST = 10
"""Problems of one payload that are told."""
_LONGEST = 300
"""Characters of one problem: its message quotes what was given, which may be large."""
_DATA = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose value is data, not a schema."""
_NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords below which keys are names."""


def misfits(schema: dict[str, Any], payload: Any) -> list[str]:
    """What does not fit, each as ``place: message``, by place, at most ``MOST``.

    Raises InvalidInputError(code="input_schema") when the schema cannot be used.
    """
    try:
        found = sorted(
            _validator(schema).iter_errors(payload), key=lambda one: list(map(str, one.absolute_path))
        )
    except Exception as error:  # a schema that is none fails in the library in many ways
        problem = schema_problem(schema) or f"it cannot be used: {type(error).__name__}"
    else:
        return [_told(one.absolute_path, one.message) for one in found[:MOST]]
    raise InvalidInputError(
        f"`input` of the playbook is no schema a payload can be held against: {problem}",
        code="input_schema",
        hint="correct the playbook, and register it again",
    )


def schema_problem(schema: dict[str, Any]) -> str | None:
    """Why this is no usable JSON Schema, as ``place: message``; None when it is one."""
    import jsonschema

    validator = _dialect(schema)
    try:
        validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return _told(error.absolute_path, error.message, "input")
    except RecursionError:
        return "it is nested too deep"
    return next(_lost(schema), None)


def _dialect(schema: dict[str, Any]) -> Any:
    import jsonschema

    return jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)


def _validator(schema: dict[str, Any]) -> Any:
    from referencing.jsonschema import EMPTY_REGISTRY

    return _dialect(schema)(schema, registry=EMPTY_REGISTRY)


def _lost(schema: dict[str, Any]) -> Iterator[str]:
    """References that lead nowhere."""
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY, specification_with

    dialect = specification_with(str(schema.get("$schema", "")), default=DRAFT202012)
    resolver = EMPTY_REGISTRY.resolver_with_root(dialect.create_resource(schema))
    for place, reference in _references(schema, ()):
        try:
            resolver.lookup(reference)
        except (Unresolvable, ValueError):
            yield _told(place, f"{reference!r} leads nowhere: nothing is fetched", "input")


def _references(schema: Any, place: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Every ``$ref`` with its place. What has an ``$id`` of its own is left to the library: references in it are relative to that."""
    if isinstance(schema, list):
        for number, entry in enumerate(schema):
            yield from _references(entry, (*place, number))
    if not isinstance(schema, dict) or (place and isinstance(schema.get("$id"), str)):
        return
    names = bool(place) and place[-1] in _NAMES
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str) and not names:
            yield (*place, key), value
        elif names or key not in _DATA:
            yield from _references(value, (*place, key))


def _told(path: Any, message: Any, root: str = "payload") -> str:
    where, text = "/".join(str(part) for part in path) or root, str(message)
    return f"{where}: {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}"
