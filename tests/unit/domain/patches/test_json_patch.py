"""JSON Patch and JSON Merge Patch: the examples of their standards, and that the document itself never changes."""

from __future__ import annotations

import copy

import pytest

from noetl.domain.errors import InvalidInputError
from noetl.domain.patches.json_patch import check_operations, merge_patch, patch_document, roots
from tests.parts import over

GIVEN = {"foo": "bar", "list": ["a", "b"], "deep": {"x": {"y": 1}}, "flag": True}


@over(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/baz", "value": "qux"}, {**GIVEN, "baz": "qux"}),
        ({"op": "add", "path": "/foo", "value": None}, {**GIVEN, "foo": None}),
        ({"op": "add", "path": "/list/1", "value": "x"}, {**GIVEN, "list": ["a", "x", "b"]}),
        ({"op": "add", "path": "/list/-", "value": ["c"]}, {**GIVEN, "list": ["a", "b", ["c"]]}),
        ({"op": "add", "path": "/list/2", "value": "c"}, {**GIVEN, "list": ["a", "b", "c"]}),
        ({"op": "add", "path": "/deep/x/z", "value": 2}, {**GIVEN, "deep": {"x": {"y": 1, "z": 2}}}),
        ({"op": "add", "path": "/a~1b~0c", "value": 1}, {**GIVEN, "a/b~c": 1}),
        ({"op": "replace", "path": "/list/0", "value": "z"}, {**GIVEN, "list": ["z", "b"]}),
        ({"op": "remove", "path": "/list/0"}, {**GIVEN, "list": ["b"]}),
        ({"op": "remove", "path": "/deep/x/y"}, {**GIVEN, "deep": {"x": {}}}),
        ({"op": "move", "from": "/list/0", "path": "/list/1"}, {**GIVEN, "list": ["b", "a"]}),
        (
            {"op": "copy", "from": "/deep/x", "path": "/deep/w"},
            {**GIVEN, "deep": {"x": {"y": 1}, "w": {"y": 1}}},
        ),
        ({"op": "move", "from": "/foo", "path": "/foo"}, GIVEN),
        ({"op": "test", "path": "/list/1", "value": "b"}, GIVEN),
        ({"op": "test", "path": "/deep", "value": {"x": {"y": 1.0}}}, GIVEN),
    ],
    ids=lambda value: f"{value['op']} {value['path']}" if "op" in value else "",
)
def test_operations_do_what_the_standard_says(operation, expected):
    before = copy.deepcopy(GIVEN)
    check_operations([operation])
    assert patch_document(before, [operation]) == expected
    assert before == GIVEN


@over(
    "operation",
    [
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "remove", "path": "/none"},
        {"op": "remove", "path": "/list/2"},
        {"op": "remove", "path": "/list/-"},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/none/x", "value": 1},
        {"op": "add", "path": "/foo/x", "value": 1},
        {"op": "copy", "from": "/none", "path": "/x"},
        {"op": "move", "from": "/deep", "path": "/deep/x"},
        {"op": "test", "path": "/flag", "value": 1},
        {"op": "test", "path": "/list", "value": ["b", "a"]},
        {"op": "test", "path": "/deep/x/y", "value": True},
    ],
    ids=lambda value: f"{value['op']} {value['path']}",
)
def test_what_does_not_fit_changes_nothing(operation):
    first = {"op": "add", "path": "/done", "value": 1}
    with pytest.raises(InvalidInputError) as refused:
        patch_document(copy.deepcopy(GIVEN), [first, operation])
    assert refused.value.code == "patch_conflict" and "patch[1]" in refused.value.message


def test_operations_follow_one_another_and_name_what_they_touch():
    operations = [
        {"op": "add", "path": "/new", "value": {"a": []}},
        {"op": "add", "path": "/new/a/-", "value": 1},
        {"op": "copy", "from": "/new/a", "path": "/other"},
        {"op": "remove", "path": "/foo"},
    ]
    assert roots(operations) == ["new", "other", "foo"]
    after = patch_document(GIVEN, operations)
    assert after["new"] == {"a": [1]} and after["other"] == [1] and "foo" not in after


@over(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "foo"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1], {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merging_does_what_the_standard_says(target, patch, expected):
    assert merge_patch(target, patch) == expected


class Copies(list):
    """A list that counts how often it is copied."""

    made = 0

    def __iter__(self):
        Copies.made += 1
        return super().__iter__()

    def copy(self):
        Copies.made += 1
        return list.copy(self)


def test_a_list_is_copied_once_however_many_operations_change_it():
    """A million entries and a thousand operations were a thousand million copies."""
    Copies.made = 0
    document = {"rows": Copies([0] * 100), "other": [{"a": [1]}]}
    before = copy.deepcopy(document["other"])
    operations = [{"op": "replace", "path": f"/rows/{n % 100}", "value": n} for n in range(1000)]
    operations += [
        {"op": "copy", "from": "/other/0", "path": "/other/-"},
        {"op": "add", "path": "/other/0/a/-", "value": 2},
        {"op": "copy", "from": "/other", "path": "/twin"},
        {"op": "replace", "path": "/other/1/a/0", "value": 9},
        {"op": "move", "from": "/twin/0", "path": "/moved"},
        {"op": "add", "path": "/moved/a/-", "value": 3},
    ]
    found = patch_document(document, operations)
    assert found["rows"] == list(range(900, 1000))
    assert found["other"] == [{"a": [1, 2]}, {"a": [9]}]
    assert (found["twin"], found["moved"]) == ([{"a": [1]}], {"a": [1, 2, 3]})
    assert Copies.made == 1
    assert (document["other"], sorted(document)) == (before, ["other", "rows"])
