"""The schema of ``input``: what is refused when a playbook is compiled, and what is said of payloads."""

from __future__ import annotations

import pytest

from noetl.domain.errors import InvalidInputError
from noetl.dsl.json_schema.check import MOST, misfits, schema_problem, show_problem
from noetl.dsl.json_schema.effort import Effort
from tests.parts import over, repeated

STRICT = {
    "type": "object",
    "required": ["a"],
    "properties": {"days": {"type": "integer", "maximum": 7}, "rows": {"items": {"type": "string"}}},
}


@over(
    ("schema", "problem"),
    [
        ({"type": "strin"}, "type: 'strin' is not valid"),
        (
            {"properties": {"n": {"pattern": "("}}},
            "properties/n/pattern: the pattern '(' cannot be used: missing ): (",
        ),
        ({"$ref": "http://127.0.0.1:1/x.json"}, "$ref: 'http://127.0.0.1:1/x.json' leads nowhere"),
        ({"allOf": [{"$ref": "file:///etc/passwd"}]}, "allOf/0/$ref: "),
        (
            {"properties": {"n": {"$ref": "#/$defs/m"}}, "$defs": {"n": {}}},
            "properties/n/$ref: '#/$defs/m' leads nowhere",
        ),
    ],
)
def test_what_is_no_schema(schema, problem):
    found = schema_problem(schema)
    assert found is not None
    assert problem in show_problem(found)
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
    with pytest.raises(InvalidInputError, match="leads back to itself"):
        misfits({"$ref": "#"}, {})


def test_a_schema_without_end_ends_before_the_stack_does():
    """At its end a compiled map of the library panics, in some frames: that is no Exception, and would end a thread."""
    schema = {"$dynamicAnchor": "x", "anyOf": [{"not": {"$dynamicRef": "#x"}}]}
    assert schema_problem(schema) is None

    def check(frames):
        if frames:
            check(frames - 1)
            return
        with pytest.raises(InvalidInputError, match="nested too deep"):
            misfits(schema, [1])

    for frames in range(30):
        check(frames)


def test_a_schema_of_an_old_draft_that_the_library_cannot_read():
    schema = {"$schema": "http://json-schema.org/draft-03/schema#", "extends": {"type": "string"}}
    assert "cannot be read" in schema_problem(schema).message


LISTS = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/n"}]}}}}


@pytest.mark.parametrize("schema", [LISTS, {"$dynamicRef": "#x", "$dynamicAnchor": "x"}])
def test_a_check_that_goes_too_deep_is_a_limit(schema):
    payload: list[object] = []
    for _ in range(190):
        payload = [payload]
    assert schema_problem(schema) is None
    with pytest.raises(InvalidInputError, match="nested too deep") as raised:
        misfits(schema, payload)
    assert raised.value.code == "schema_limit"


@over(
    ("number", "of", "fits"),
    [
        (19.99, 0.01, True),
        (1.1, 0.1, True),
        (19.995, 0.01, False),
        (10**3999, 0.01, True),
        (10**3999 + 1, 0.02, True),
        (10**3999 + 1, 2, False),
        (1e300, 1e-300, True),
        (1e-300, 1e300, False),
        (7.0, 7, True),
        (True, 2, True),
    ],
    ids=lambda value: str(value)[:12],
)
def test_multiples_are_those_of_the_digits(number, of, fits):
    assert (misfits({"multipleOf": of}, number) == []) is fits


def test_problems_are_told_by_their_places_and_bounded():
    assert misfits(STRICT, {"days": 8, "rows": ["x", 5]}) == [
        "payload: 'a' is a required property",
        "days: 8 is greater than the maximum of 7",
        "rows/1: 5 is not of type 'string'",
    ]
    many = misfits(STRICT, {"rows": list(range(50)), "days": ["x" * 100_000]})
    assert len(many) == MOST
    assert max(map(len, many)) < 400


# --- what one check may cost ---

DRAFTS = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-03/schema#",
]
EVIL = "^(a+)+$"
VICTIM = "a" * 50 + "!"


@over("draft", DRAFTS)
@over(
    ("schema", "payload"),
    [
        ({"properties": {"x": {"pattern": EVIL}}}, {"x": VICTIM}),
        ({"patternProperties": {EVIL: {"type": "integer"}}}, {VICTIM: "x"}),
        ({"patternProperties": {EVIL: {}}, "additionalProperties": False}, {VICTIM: 1}),
        ({"properties": {"x": {"$schema": DRAFTS[2], "pattern": EVIL}}}, {"x": VICTIM}),
        ({"patternProperties": {EVIL: {}}, "unevaluatedProperties": False}, {VICTIM: 1}),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"x": {"pattern": EVIL}}}}}, {"x": VICTIM}),
        ({"properties": {"x": {"format": "regex"}}}, {"x": "(a" * 1000}),
    ],
    ids=["pattern", "names", "additional", "other draft inside", "unevaluated", "reference", "format"],
)
def test_patterns_take_linear_time(draft, schema, payload):
    """With Python's ``re`` these would not end before the sun does."""
    misfits({"$schema": draft, **schema}, payload)


@over(
    ("pattern", "text", "matches"),
    [
        (r"^\u00e9+$", "éé", True),
        (r"^[\u4e00-\u9fa5]+\Z", "中文", True),
        (r"^\ud83d\ude00$", "\U0001f600", True),
        (r"^\\u0041$", r"\u0041", True),
        (r"^.$", "\ud800", True),
        (r"^\d+$", "٣", False),
        (r"^a$", "a\n", False),
        (r"^\p{Lu}\w*$", "Éa", True),
    ],
)
def test_patterns_mean_what_json_schema_says(pattern, text, matches):
    assert schema_problem({"pattern": pattern}) is None
    assert (misfits({"pattern": pattern}, text) == []) is matches


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("^(?=a)b", "a lookahead is not supported (write several patterns, combined with `allOf` and `not`)"),
        ("^(?!a)b", "a lookahead is not supported"),
        ("(?<=a)b", "a lookbehind is not supported"),
        (r"(a)\1", "a backreference is not supported"),
        ("a{1,1001}", "a repetition is too large (at most 1000 times; bound lengths with"),
        (r"^(\p{L}{1,900}){1,1}$", "it is too large when its repetitions are written out"),
        ("a" * 4097, "it is longer than 4096 characters"),
    ],
)
def test_what_the_engine_of_patterns_refuses(pattern, told):
    for schema in ({"properties": {"x": {"pattern": pattern}}}, {"patternProperties": {pattern: {}}}):
        found = schema_problem(schema)
        assert found is not None
        assert told in show_problem(found)
        with pytest.raises(InvalidInputError) as raised:
            misfits(schema, {"x": "y"})
        assert raised.value.code == "input_schema"
        assert told.partition(" (")[0] in raised.value.message


def lattice(levels: int, keyword: str, below: str | None) -> dict[str, object]:
    """Two ways to the next level, on each level; ``below``: for a value further down."""

    def ref(level: int) -> dict[str, object]:
        found: dict[str, object] = {"$ref": f"#/$defs/l{level}"}
        return found if below is None else {"properties": {below: found}}

    defs: dict[str, object] = {f"l{n}": {keyword: [ref(n + 1), ref(n + 1)]} for n in range(levels)}
    defs[f"l{levels}"] = {"type": "null"}
    return {"$defs": defs, "$ref": "#/$defs/l0"}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_a_lattice_for_one_value_is_refused_with_the_playbook(keyword):
    found = schema_problem(lattice(30, keyword, None))
    assert found is not None
    assert "keywords apply to one value" in found.message


SHARE = repeated(gate=5, full=1)
"""Of the operations that a check may take, `make test` leaves a fifth."""


def nested(levels: int) -> object:
    return {"a": nested(levels - 1)} if levels else 5


@pytest.mark.parametrize(
    ("schema", "make_payload"),
    [
        (lattice(40, "anyOf", "a"), lambda: nested(40)),
        pytest.param(lattice(40, "oneOf", "a"), lambda: nested(40), marks=pytest.mark.full),
        (
            {"uniqueItems": True, "items": {"uniqueItems": True}},
            lambda: [[{"a": n}, 0] * 100 for n in range(20_000 // SHARE)],
        ),
        pytest.param({"items": {}}, lambda: [[]] * 1_000_001, marks=pytest.mark.full),
        pytest.param(
            {"items": {"enum": [[n] for n in range(1000)]}}, lambda: [[999]] * 10_000, marks=pytest.mark.full
        ),
        ({"items": {"pattern": "[ab]*a[ab]{900}c"}}, lambda: ["ab" * 5000] * 100),
        (
            {"items": {"$ref": "#q"}, "$defs": {f"d{n}": {"$anchor": "q" + "x" * n} for n in range(500)}},
            lambda: [1] * 5000,
        ),
        pytest.param(
            {"patternProperties": {f"a{n}": {} for n in range(2000)}},
            lambda: {f"b{n}": 1 for n in range(2000)},
            marks=pytest.mark.full,
        ),
    ],
    ids=["anyOf", "oneOf", "uniqueItems", "items", "enum", "pattern", "anchors", "patternProperties"],
)
def test_a_check_ends_after_a_bounded_number_of_operations(schema, make_payload, monkeypatch):
    """Payloads are made by their test: every process of the suite collects this file."""
    lookup, whole = Effort.__init__.__defaults__ or ()
    monkeypatch.setattr(Effort.__init__, "__defaults__", (lookup, whole // SHARE))
    payload = make_payload()
    assert schema_problem(schema) is None
    with pytest.raises(InvalidInputError) as raised:
        misfits(schema, payload)
    assert raised.value.code == "schema_limit"


def test_large_payloads_of_the_common_kind_are_checked():
    schema = {
        "type": "object",
        "required": ["rows"],
        "properties": {
            "rows": {
                "type": "array",
                "uniqueItems": True,
                "items": {
                    "type": "object",
                    "required": ["id", "mail"],
                    "properties": {
                        "id": {"type": "integer", "minimum": 0},
                        "mail": {"type": "string", "pattern": r"^\S+@\S+$"},
                        "state": {"enum": ["new", "open", "done"]},
                    },
                },
            }
        },
    }
    rows = [{"id": n, "mail": f"someone.{n}@example.org", "state": "open"} for n in range(20_000)]
    assert misfits(schema, {"rows": rows}) == []
    assert misfits(schema, {"rows": [*rows[:50], rows[0]]})[0].startswith("rows: ")


@over(
    ("values", "same"),
    [
        ([1, 1.0], True),
        ([True, 1], False),
        ([{"a": 1, "b": [2.0]}, {"b": [2], "a": 1}], True),
        (["1", 1], False),
        ([[1, 2], [2, 1]], False),
        ([None, 0, False, "", [], {}], False),
        ([10**20, 1e20], True),
    ],
)
def test_which_entries_are_the_same(values, same):
    assert bool(misfits({"uniqueItems": True}, values)) is same
