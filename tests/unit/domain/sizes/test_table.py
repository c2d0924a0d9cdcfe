"""The gate for sizes: documents, names, numbers, and what workers report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl.domain import codec
from noetl.domain.commands import ChunkRest, ItemOutcome
from noetl.domain.errors import InvalidInputError
from noetl.domain.events import ItemsDone
from noetl.domain.outcomes.outcomes import Outcome, Patch, Suspend
from noetl.domain.outcomes.report_checks import fitting, plain_text
from noetl.domain.patches.scope_patches import apply_patch, combine
from noetl.domain.sizes.gate import check_document, check_value, find_unfit, weight
from noetl.domain.sizes.table import (
    DOCUMENT_BYTES,
    DOCUMENT_DEPTH,
    DOCUMENT_KEYS,
    INTEGER_DIGITS,
    NAME,
    NUMBER,
)
from tests.parts import over


def sized(count: int) -> dict[str, Any]:
    """A document of ``count`` bytes."""
    return {"a": "x" * (count - len(codec.encode({"a": ""})))}


def nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return {"a": value}


MAKES = [
    (DOCUMENT_BYTES, sized),
    (DOCUMENT_KEYS, lambda count: {str(number): 1 for number in range(count)}),
    (DOCUMENT_DEPTH, nested),
    (INTEGER_DIGITS, lambda count: {"a": {"b": [0, 10**count - 1]}}),
    (INTEGER_DIGITS, lambda count: {"a": 1 - 10**count}),
    (NAME, lambda count: {"k" * count: 1}),
    (NAME, lambda count: {"\ud800" * count: 1}),
]


@over(("size", "make"), MAKES)
def test_at_the_limit_is_accepted_and_above_is_told(size: Any, make: Any) -> None:
    for below in (size.value - 1, size.value):
        check_document(make(below), "payload")
    with pytest.raises(InvalidInputError) as told:
        check_document(make(size.value + 1), "payload")
    assert (told.value.code, told.value.details["limit"]) == ("size_limit", size.name)
    json.dumps(told.value.details)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"a": [{"b/c~d": 10**4000}]}, "/a/0/b~1c~0d"),
        ({"k" * 300: 1}, f"/{'k' * 39}…"),
        ({"a": 1, **nested(300)}, "/a" + "/0" * 19 + "/…"),
    ],
)
def test_the_place_is_a_pointer(document: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidInputError) as told:
        check_document(document, "payload")
    assert told.value.details["place"] == place
    assert place in told.value.message


def test_depth_beyond_the_stack_of_python_is_told_like_any_other() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = {"a": value}
    with pytest.raises(InvalidInputError) as told:
        check_value(value, "body")
    assert told.value.details["limit"] == DOCUMENT_DEPTH.name
    assert "levels" in str(find_unfit(value))


@over(
    ("value", "fits"),
    [
        (10**4000 - 1, True), (10**4000, False), (-(10**4000), False), ({"a": [1, (2, 10**5000)]}, False),
        (True, True), (None, True), ("9" * 9000, True), (1.5, True), (float("inf"), False), ({1: 2}, False),
    ],
)  # fmt: skip
def test_results_of_tasks(value: Any, fits: bool) -> None:
    assert (find_unfit(value) is None) is fits


def test_a_sum_stops_where_numbers_stop() -> None:
    most = 10**INTEGER_DIGITS.value - 1
    assert apply_patch(most - 1, Patch("ctx", "n", 1, "add")) == most
    for current, value in ((most, 1), (-most, -1), (1e308, 1e308), (most, 0.5)):
        with pytest.raises(InvalidInputError):
            apply_patch(current, Patch("ctx", "n", value, "add"))
    twice = [Patch("ctx", "n", most, "add")] * 2
    assert combine(twice) == twice, "what they are added to may be negative"


def test_counting_ends_where_enough_was_counted() -> None:
    shared: Any = ["x" * 100]
    for _ in range(60):
        shared = [shared, shared]
    assert 10_000 < weight(shared, 10_000) < 20_000
    assert weight({"ab": [1, "xyz"]}, 100) == 2 + 2 + 2 + 2 + 3 + 2


def items(*outcomes: Outcome, rest: ChunkRest | None = None) -> ItemsDone:
    told = [ItemOutcome(index, outcome) for index, outcome in enumerate(outcomes)]
    return ItemsDone(7, "items:1", "p", "1.r0.0", 1, 0, 1, "s", 0, told, rest=rest)


def test_items_are_held_against_limits_one_by_one() -> None:
    good, bad = (
        Outcome("ok", patches=[Patch("ctx", "a", 1)]),
        Outcome("ok", patches=[Patch("ctx", "k" * 256, 1)]),
    )
    event = items(
        good, bad, good, rest=ChunkRest(3, outcome=Outcome("suspended", suspend=Suspend({}, delay=1e300)))
    )
    found = fitting(event)
    assert isinstance(found, ItemsDone)
    assert [item.outcome.status for item in found.items] == ["ok", "error", "ok"]
    assert found.items[0].outcome is good
    assert (
        found.rest is not None and found.rest.outcome is not None and found.rest.outcome.suspend is not None
    )
    assert found.rest.outcome.suspend.delay == NUMBER.value
    untouched = items(good, rest=ChunkRest(1, outcome=Outcome("suspended", suspend=Suspend({}, delay=3.0))))
    assert fitting(untouched) is untouched


@pytest.mark.parametrize(
    ("text", "plain"), [("a\0b", "a\ufffdb"), ("a\ud800b", "a?b"), ("x" * 2000, "x" * 1000)]
)
def test_text_that_a_column_holds(text: str, plain: str) -> None:
    assert plain_text(text) == plain
