import pytest

from noetl.domain import codec, ids


def test_execution_ids_follow_time_and_fit_64_bits():
    early, late = ids.execution_id(1_800_000_000_000, 2**22 - 1), ids.execution_id(1_800_000_000_001, 0)
    assert early < late < 2**63


def test_a_child_is_the_same_child_however_often_it_is_asked_for():
    parent = ids.execution_id(1_800_000_000_000, 7)
    children = {ids.child_execution_id(parent, f"{run}", turn) for run in range(200) for turn in range(3)}
    assert len(children) == 600
    assert ids.child_execution_id(parent, "5", 1) in children
    assert all(child >> ids.RANDOM_BITS == parent >> ids.RANDOM_BITS for child in children)


@pytest.mark.parametrize(
    "value",
    ["nul \0", "lone \ud800 surrogate", 12345678901234567890123, -0.0, {"a": [None, True, "é"]}, 1.5e300],
)
def test_json_survives_exactly(value):
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1.0, float("nan")]}, "$.a[1] is nan"),
        ([float("inf")], "$[0] is inf"),
        ({"a": {1: 2}}, "$.a has the key 1"),
        ({"a": {1, 2}}, "$.a is a set"),
    ],
)
def test_what_json_cannot_hold_is_found_with_its_place(value, place):
    assert place in (codec.find_unstorable(value) or "")


def test_nesting_has_a_bound():
    value: list = []
    for _ in range(10_000):
        value = [value]
    assert "nested more than" in (codec.find_unstorable(value) or "")


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "[-1e999]", "{", '{"a" 1}'])
def test_what_is_not_json_is_refused(text):
    with pytest.raises(ValueError, match=r"\S"):
        codec.decode(text)
