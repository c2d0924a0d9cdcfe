"""The schema of ``input``: what is refused when a playbook is compiled, and what is said of payloads."""

from __future__ import annotations

import pytest

from noetl.domain.errors import InvalidInputError
from noetl.dsl.input_schema import MOST, misfits, schema_problem

STRICT = {
    "type": "object",
    "required": ["a"],
    "properties": {"days": {"type": "integer", "maximum": 7}, "rows": {"items": {"type": "string"}}},
}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "strin"}, "type: 'strin' is not valid"),
        ({"properties": {"n": {"pattern": "("}}}, "properties/n/pattern: '(' is not a 'regex'"),
        ({"$ref": "http://127.0.0.1:1/x.json"}, "$ref: 'http://127.0.0.1:1/x.json' leads nowhere"),
        ({"allOf": [{"$ref": "file:///etc/passwd"}]}, "allOf/0/$ref: "),
        (
            {"properties": {"n": {"$ref": "#/$defs/m"}}, "$defs": {"n": {}}},
            "properties/n/$ref: '#/$defs/m' leads nowhere",
        ),
    ],
)
def test_what_is_no_schema(schema, problem):
    assert problem in (schema_problem(schema) or "nothing")
    with pytest.raises(InvalidInputError) as raised:
        misfits(schema, {"n": "x"})
    assert raised.value.code == "input_schema"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"$ref": "#q"}}, "$defs": {"a": {"$anchor": "q", "type": "integer"}}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"x": {"$ref": "#/definitions/a"}},
            "definitions": {"a": {"type": "integer"}},
        },
        {
            "properties": {"$ref": {"type": "string"}, "enum": {}, "x": {"type": "integer"}},
            "default": {"$ref": "#/no"},
        },
    ],
)
def test_what_is_one(schema):
    assert schema_problem(schema) is None
    assert misfits(schema, {"x": 1}) == []
    assert misfits(schema, {"x": "a"}) == ["x: 'a' is not of type 'integer'"]


def test_a_schema_without_end_is_an_error_of_the_playbook():
    with pytest.raises(InvalidInputError, match="RecursionError"):
        misfits({"$ref": "#"}, {})


def test_problems_are_told_by_their_places_and_bounded():
    assert misfits(STRICT, {"days": 8, "rows": ["x", 5]}) == [
        "payload: 'a' is a required property",
        "days: 8 is greater than the maximum of 7",
        "rows/1: 5 is not of type 'string'",
    ]
    many = misfits(STRICT, {"rows": list(range(50)), "days": ["x" * 100_000]})
    assert len(many) == MOST
    assert max(map(len, many)) < 400
