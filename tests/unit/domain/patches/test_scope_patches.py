"""Folding many changes into few must not change what they do."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.domain.errors import InvalidInputError
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.patches.scope_patches import MISSING, apply_patch, combine, deep_merge
from tests.parts import over

NUMBERS = st.integers(-(10**30), 10**30)
CHANGES = {
    "add": NUMBERS,
    "max": NUMBERS,
    "min": NUMBERS,
    "append": NUMBERS | st.text(max_size=3),
    "extend": st.lists(NUMBERS, max_size=3),
    "union": st.lists(st.integers(0, 5), max_size=4),
    "first": NUMBERS,
    "merge": st.dictionaries(
        st.sampled_from("abc"), NUMBERS | st.dictionaries(st.sampled_from("xy"), NUMBERS)
    ),
}


@st.composite
def histories(draw):
    family = draw(
        st.sampled_from(
            [("add",), ("max",), ("min",), ("append", "extend"), ("union",), ("first",), ("merge",)]
        )
    )
    patches = [
        Patch("ctx", "x", draw(CHANGES[op]), op)
        for op in draw(st.lists(st.sampled_from(family), min_size=1, max_size=12))
    ]
    if draw(st.booleans()):
        place = draw(st.integers(0, len(patches)))
        start = {"append": [], "union": [], "merge": {}}.get(family[0], 1)
        patches.insert(place, Patch("ctx", "x", start, "set"))
    return patches


def after(patches, value=MISSING):
    return reduce(apply_patch, patches, value)


@given(histories())
def test_combined_patches_do_what_the_single_ones_did(patches):
    combined = combine(patches)
    assert after(combined) == after(patches)
    assert len(combined) <= 2


def test_combining_keeps_names_apart_and_leaves_its_input_alone():
    first = Patch("ctx", "rows", [1], "extend")
    assert combine([first, Patch("vars", "rows", 1), Patch("ctx", "rows", 2, "append")]) == [
        Patch("ctx", "rows", [1, 2], "extend"),
        Patch("vars", "rows", 1),
    ]
    assert first.value == [1]


@over(
    ("current", "op", "value", "told"),
    [
        ("text", "add", 1, "it holds a text ('text'), not a number"),
        (1, "add", True, "add takes a number, not a boolean (True)"),
        ({}, "append", 1, "it holds a mapping ({}), not a list"),
        ([1], "extend", 2, "extend takes a list, not a number (2)"),
        (5, "union", [1], "it holds a number (5), not a list"),
        (1, "merge", {}, "it holds a number (1), not a mapping"),
        (MISSING, "merge", [1], "merge takes a mapping, not a list ([1])"),
        ("a", "max", 1, "a number does not compare with a text"),
        (
            0.5,
            "add",
            10**400,
            "one number is a fraction, and the other one a whole number beyond what fractions reach",
        ),
    ],
)
def test_a_change_that_does_not_fit_names_itself_and_the_value(current, op, value, told):
    with pytest.raises(InvalidInputError) as caught:
        apply_patch(current, Patch("ctx", "x", value, op))
    assert (caught.value.code, caught.value.message) == ("patch_type", f"ctx.x: cannot {op}: {told}")
    assert caught.value.hint


def test_deep_merge_replaces_lists_and_merges_mappings():
    assert deep_merge({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2]}, "e": 2}) == {
        "a": {"b": 1, "c": [2]},
        "d": 1,
        "e": 2,
    }


def test_changes_that_do_not_fit_each_other_stay_as_they_are():
    reference = Patch("ctx", "x", {"kind": "result_ref", "ref": "noetl://execution/1/result/a/1"})
    for op, value in (("append", 1), ("extend", [1]), ("union", 1), ("add", 1)):
        change = Patch("ctx", "x", value, op)
        assert combine([reference, change]) == [reference, change]
    most = 10**4000 - 1
    sums = [Patch("ctx", "x", most, "add"), Patch("ctx", "x", most, "add")]
    assert combine(sums) == sums
    assert combine([Patch("ctx", "x", most), sums[0]]) == [Patch("ctx", "x", most), sums[0]]
    assert combine([*sums, Patch("ctx", "x", 1)]) == [Patch("ctx", "x", 1)]
