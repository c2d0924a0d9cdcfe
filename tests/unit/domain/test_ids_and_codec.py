import pytest

from noetl.domain import codec, ids
from noetl.domain.sizes.table import DOCUMENT_DEPTH
from tests.parts import over


def test_execution_ids_follow_time_and_fit_64_bits():
    early, late = ids.execution_id(1_800_000_000_000, 2**22 - 1), ids.execution_id(1_800_000_000_001, 0)
    assert early < late < 2**63


def test_a_child_is_the_same_child_however_often_it_is_asked_for():
    parent = ids.execution_id(1_800_000_000_000, 7)
    origins = [ids.child_origin(f"{run}", turn) for run in range(200) for turn in range(3)]
    children = [ids.child_execution_id(parent, origin) for origin in origins]
    assert children == [ids.child_execution_id(parent, origin) for origin in origins]
    assert len(set(children)) > 590


def test_children_sort_soon_after_their_parent_and_share_its_shard():
    parent = ids.execution_id(1_800_000_000_000, 2**22 - 5)
    last = ids.execution_id(1_800_000_000_000 + 2**14, 0)
    shard = (1 << ids.SHARD_BITS) - 1
    for item in range(500):
        child = ids.child_execution_id(parent, ids.child_origin("3", 1, item), item=item**3)
        assert parent >> ids.RANDOM_BITS << ids.RANDOM_BITS <= child < last
        assert child & shard == parent & shard


def test_a_child_of_a_small_loop_belongs_to_its_parents_millisecond():
    parent = ids.execution_id(1_800_000_000_000, 7)
    for item in (-1, 0, 5, 63):
        child = ids.child_execution_id(parent, ids.child_origin("3", 1, item), item=item)
        assert child >> ids.RANDOM_BITS == parent >> ids.RANDOM_BITS


def test_every_child_of_one_turn_has_an_origin_of_its_own():
    asked = [
        ("3", 1, -1, 0),
        ("3", 1, -1, 1),
        ("3", 1, 1, 0),
        ("3", 11, -1, 0),
        ("3", 1, 1, 1),
        ("31", 1, -1, 0),
    ]
    assert len({ids.child_origin(*one) for one in asked}) == len(asked)


def test_an_id_that_is_taken_is_derived_again_and_again_the_same():
    parent, origin = ids.execution_id(1_800_000_000_000, 7), ids.child_origin("5", 1)
    taken: set[int] = set()
    for _ in range(200):
        child = ids.child_execution_id(parent, origin, taken)
        assert child == ids.child_execution_id(parent, origin, frozenset(taken)) and child not in taken
        taken.add(child)


def test_a_turn_is_told_ids_that_differ_and_that_nothing_it_sees_mentions(monkeypatch):
    monkeypatch.setattr(ids, "SPREAD_BITS", 2)
    parent, known = ids.execution_id(1_800_000_000_000, 7), set[int]()
    told, passed = [], []
    for number in range(1, 40):
        child, over = ids.derivation_to_tell(parent, ids.child_origin("5", 1, 3, number), known)
        assert child in ids.ids_in(codec.encode({"text": f"execution {child}!"}))
        known.add(child)
        told.append(child)
        passed.append(over)
    assert ids.detached_execution_ids(parent, "5", 1, 3, passed) == told
    assert len(set(ids.detached_execution_ids(parent, "5", 1, 3, [0] * 39))) == 39, (
        "an older worker reports nothing"
    )
    free = ids.detached_execution_ids(parent, "5", 1, 3, passed, told[:1])
    assert free[0] not in told[:1] and len(set(free)) == 39


@pytest.mark.parametrize("passed", [-1, 10**4000])
def test_a_child_stays_near_its_parent_whatever_a_worker_reports(passed):
    parent = ids.execution_id(1_800_000_000_000, 7)
    (child,) = ids.detached_execution_ids(parent, "5", 1, -1, [passed])
    assert 0 <= (child >> ids.RANDOM_BITS) - (parent >> ids.RANDOM_BITS) < 18 * 60 * 1000


def test_a_crowded_place_is_left_for_a_wider_one(monkeypatch):
    monkeypatch.setattr(ids, "SPREAD_BITS", 2)
    parent, taken = ids.execution_id(1_800_000_000_000, 7), set[int]()
    for item in range(300):
        taken.add(ids.child_execution_id(parent, ids.child_origin("5", 1, item), taken))
    assert len(taken) == 300


def test_a_million_children_of_one_parent_rarely_ask_for_the_same_id():
    """The figure that ADR 0038 gives: n² / 2^31 pairs, which the store tells apart."""
    parent = ids.execution_id(1_800_000_000_000, 7)
    asked = 200_000
    found = {
        ids.child_execution_id(parent, ids.child_origin("5", 1, item), (), item) for item in range(asked)
    }
    expected = asked**2 / 2 ** (ids.SPREAD_BITS + 1)
    assert asked - len(found) < 3 * expected


@over(
    "value",
    ["nul \0", "lone \ud800 surrogate", 12345678901234567890123, -0.0, {"a": [None, True, "é"]}, 1.5e300],
)
def test_json_survives_exactly(value):
    assert codec.decode(codec.encode(value)) == value


@over(
    ("value", "place"),
    [
        ({"a": [1.0, float("nan")]}, "$.a[1] is nan"),
        ([float("inf")], "$[0] is inf"),
        ({"a": {1: 2}}, "$.a has the key 1"),
        ({"a": {1, 2}}, "$.a is of type set"),
    ],
)
def test_what_json_cannot_hold_is_found_with_its_place(value, place):
    found = codec.find_unstorable(value)
    assert found is not None and found.describe("$").startswith(place)


def test_nesting_has_a_bound():
    value: list = []
    for _ in range(10_000):
        value = [value]
    found = codec.find_unstorable(value)
    assert found is not None and (found.size, len(found.keys)) == (DOCUMENT_DEPTH, DOCUMENT_DEPTH.value + 1)


@over("text", ["NaN", "[Infinity]", "[-1e999]", "{", '{"a" 1}'])
def test_what_is_not_json_is_refused(text):
    with pytest.raises(ValueError, match=r"\S"):
        codec.decode(text)
