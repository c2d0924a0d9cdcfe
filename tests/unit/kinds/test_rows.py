"""Rows as JSON: exact, measured, and no column hidden."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from noetl.domain.errors import TaskError
from noetl.kinds.rows.database import Table, interval_text, to_json, unique_names
from tests.parts import over


@over(
    ("value", "expected"),
    [
        (Decimal("10.00"), 10),
        (Decimal("-0.0"), 0),
        (Decimal("0.1"), 0.1),
        (Decimal("1E+3"), 1000),
        (Decimal("0.1234567890123456789"), "0.1234567890123456789"),
        (Decimal("1E-400"), "1E-400"),
        (Decimal("NaN"), None),
        (Decimal("1E+1500"), "1" + "0" * 1500),
        (float("inf"), None),
        (2**70, 2**70),
        (b"\x00\xff", "AP8="),
        ({1: {Decimal("1.5")}, None: ()}, {"1": [1.5], "null": []}),
        (datetime.date(2024, 2, 29), "2024-02-29"),
    ],
)
def test_values(value, expected):
    found = to_json(value)
    assert (found, type(found)) == (expected, type(expected))


def test_depth_is_bounded():
    value: list = []
    for _ in range(250):
        value = [value]
    with pytest.raises(TaskError) as caught:
        to_json(value)
    assert caught.value.code == "too_deep"


@over(
    ("seconds", "text"),
    [
        (0, "00:00:00"),
        (-1.5, "-00:00:01.5"),
        (86400, "1 day"),
        (90061, "1 day 01:01:01"),
        (-172800, "-2 days"),
    ],
)
def test_intervals(seconds, text):
    assert interval_text(datetime.timedelta(seconds=seconds)) == text


@over(
    ("names", "unique"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["", ""], ["", "_2"]),
    ],
)
def test_names(names, unique):
    assert unique_names(names) == unique


def test_a_table_stops_at_its_limit():
    table = Table(["a"], 100)
    table.add([("x" * 50,)])
    with pytest.raises(TaskError) as caught:
        table.add([("y" * 50,)])
    assert (caught.value.kind, caught.value.code) == ("storage_quota", "result_too_large")
    assert (caught.value.details["limit"], caught.value.details["row_count"]) == (100, 2)
    counted = Table(["a"], 100, keep=False)
    counted.add([("x" * 500,)] * 3)
    assert (counted.row_count, counted.rows) == (3, [])
