"""What user code may return."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import uuid

import pytest

from noetl.domain import codec
from noetl.kinds.sandbox.noetl_guest.plain import NotJsonError, plain
from tests.parts import over


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


@dataclasses.dataclass
class Point:
    x: int
    tags: tuple[str, ...] = ()


Pair = collections.namedtuple("Pair", "a b")


class Array:
    """Looks like a numpy value."""

    __module__ = "numpy"

    def tolist(self):
        return [1, (2.5,)]


@over(
    ("value", "expected"),
    [
        (None, None),
        (10**23, 10**23),
        ((1, [2, (3,)]), [1, [2, [3]]]),
        ({"a": {"b": True}}, {"a": {"b": True}}),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (datetime.datetime(2026, 2, 3, 4, 5, tzinfo=datetime.UTC), "2026-02-03T04:05:00+00:00"),
        (datetime.date(2026, 2, 3), "2026-02-03"),
        (datetime.time(4, 5), "04:05:00"),
        (datetime.timedelta(minutes=1, milliseconds=500), 60.5),
        (decimal.Decimal("12.50"), 12.5),
        (decimal.Decimal("7"), 7),
        (decimal.Decimal("0.10000000000000000001"), "0.10000000000000000001"),
        (decimal.Decimal("1e999999"), "1E+999999"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (Colour.RED, "red"),
        (Level.LOW, 1),
        (Text("t"), "t"),
        (Point(1, ("a",)), {"x": 1, "tags": ["a"]}),
        (Pair(1, 2), [1, 2]),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.ChainMap({"a": 1}), {"a": 1}),
        (Array(), [1, [2.5]]),
        ("\ud800\0", "\ud800\0"),
    ],
)
def test_obvious_values_are_converted(value, expected):
    made = plain(value)
    assert made == expected
    assert type(made) is type(expected)
    assert codec.decode(json.dumps(made)) == expected


def deep(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


def circle() -> dict:
    value: dict = {}
    value["me"] = value
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "result is nan, which JSON cannot hold"),
        ({"rows": [{"v": float("inf")}]}, "result['rows'][0]['v'] is inf"),
        ({"a": [{(7,): 1}]}, "result['a'][0] has the key (7,); JSON keys are text, write str(key)"),
        ({float("nan"): 1}, "has the key nan"),
        ({"a": {1: 2, "1": 3}}, "result['a'] has two keys that are '1' in JSON"),
        (b"x", "result is of type bytes, which JSON cannot hold; decode it to text"),
        ([range(3)], "result[0] is of type range, which JSON cannot hold; give list(…) of it"),
        (len, "call it"),
        (fractions.Fraction(1, 3), "result is of type Fraction"),
        ({1, "a"}, "is a set whose items have no order"),
        pytest.param(10**5000, "is an integer of 16610 bits", id="huge"),
        (deep(300), "is nested more than 200 levels deep"),
        (circle(), "is nested more than 200 levels deep"),
    ],
)
def test_other_values_are_refused_with_their_place(value, words):
    with pytest.raises(NotJsonError) as caught:
        plain(value)
    assert words in str(caught.value)
