"""Times of answers have one form: RFC 3339 in UTC with a Z; a number is never a moment."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from noetl.api.table import ROUTES
from noetl.domain import codec
from noetl.domain.text.timestamps import Timestamp, rfc3339
from tests.parts import over
from tests.unit.api.ground import openapi

NUMBERS = {
    "active_seconds", "age", "cost", "covered", "duration_ms", "expires_in", "lease_seconds", "oldest", "oldest_wait", "per", "rate",
    "seconds", "span_ms", "tool_ms",
}  # fmt: skip
"""Fields that are numbers with a fraction, and no moments: durations, ages, rates, shares, money."""
OF_TIME = re.compile(r"(^|_)(at|since|until|time|times|timestamp|from|after|before)$")
NO_TIMES = {
    ("ChangeView", "after"),
    ("ChangeView", "before"),
    ("ComparedChange", "after"),
    ("ComparedChange", "before"),
    ("LoopBand", "after"),
    ("MomentAnswer", "at"),
    ("MomentAnswer", "since"),
    ("PlaybookChange", "after"),
    ("PlaybookChange", "before"),
    ("StepView", "cached_from"),
}
"""Numbers of facts, values before and after a change, cursors, and ids of executions."""


def shapes(shape: Any, seen: set[Any]) -> Iterator[type[msgspec.Struct]]:
    """Return every struct that a shape is made of."""
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct) and shape not in seen:
        seen.add(shape)
        yield shape
        for field in msgspec.structs.fields(shape):
            yield from shapes(field.type, seen)
    for part in typing.get_args(shape):
        yield from shapes(part, seen)


def answers() -> list[type[msgspec.Struct]]:
    seen: set[Any] = set()
    return [one for route in ROUTES for shape in route.answers.values() for one in shapes(shape, seen)]


def is_number(shape: Any) -> bool:
    return shape is float or any(is_number(part) for part in typing.get_args(shape))


def test_no_number_of_an_answer_is_a_moment():
    """A new field that is a number with a fraction belongs into ``NUMBERS``, or is a ``Timestamp``."""
    found = {
        field.name: shape.__name__
        for shape in answers()
        for field in msgspec.structs.fields(shape)
        if is_number(field.type)
    }
    assert not {name: where for name, where in found.items() if name not in NUMBERS}


def test_a_field_that_is_called_like_a_time_is_one():
    """So it has the format of times in the document of the API."""
    schemas = openapi()["components"]["schemas"]
    others = {
        (shape.__name__, field.encode_name)
        for shape in answers()
        for field in msgspec.structs.fields(shape)
        if OF_TIME.search(field.encode_name)
        and "'date-time'" not in str(schemas[shape.__name__]["properties"][field.encode_name])
    }
    assert others == NO_TIMES
    assert "epoch seconds" not in str(openapi()).lower()


class Seen(msgspec.Struct, frozen=True):
    at: Timestamp
    until: Timestamp | None = None


def test_a_timestamp_is_seconds_here_and_text_in_json():
    seen = Seen(Timestamp(1_800_000_000.25))
    text = codec.encode(seen)
    assert text == b'{"at":"2027-01-15T08:00:00.250000Z","until":null}'
    assert codec.decode_as(codec.decoder(Seen), text) == seen
    assert codec.plain(seen) == {"at": "2027-01-15T08:00:00.250000Z", "until": None}
    assert codec.encode({"\ud800": seen}) == b'{"\\ud800":' + text + b"}"
    assert seen.at + 1 == 1_800_000_001.25


@over("text", [b'"2027-01-15T08:00:00"', b'"soon"', b"true", b"null", b"[]"])
def test_what_is_no_time_is_no_timestamp(text: bytes):
    with pytest.raises(msgspec.ValidationError):
        codec.decode_as(codec.decoder(Seen), b'{"at":' + text + b"}")


def test_a_time_with_another_offset_and_seconds_of_an_earlier_server_are_read():
    reader = codec.decoder(Seen)
    for text in (b'"2027-01-15T09:00:00+01:00"', b"1800000000", b"1800000000.0"):
        assert codec.decode_as(reader, b'{"at":' + text + b"}").at == 1_800_000_000


@over("at", [0.0, 0.1, 1_794_000_000.123456, 1_795_897_925.0553474, 4e9 + 0.999999])
def test_a_time_that_is_read_and_shown_again_is_the_same(at: float):
    text = rfc3339(at)
    (again,) = {rfc3339(codec.decode_as(codec.decoder(Seen), codec.encode({"at": text})).at)}
    assert again == text


def test_times_beyond_the_calendar_are_its_ends():
    assert rfc3339(-1.0).startswith("1970-01-01T00:00:00") and rfc3339(1e300).startswith("9999-")
