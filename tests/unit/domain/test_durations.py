"""Durations: what is read, what is refused, and that the schema of playbooks accepts what the parser does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.domain.durations import PATTERN, UNITS, parse_duration, seconds_of
from tests.parts import over


@over(
    ("text", "seconds"),
    [
        *(("90", 90), ("0", 0), ("1.5", 1.5), (" 30s ", 30), ("500ms", 0.5), ("10m", 600), ("1h30m", 5400)),
        *(("1h 30m", 5400), ("7d", 604_800), ("2w", 1_209_600), ("1.5h", 5400), ("1m500ms", 60.5)),
        *(("", None), ("m", None), ("30m1h", None), ("1m1m", None), ("-1s", None), ("10 minutes", None)),
        *(("1h30", None), ("10M", None), ("PT10M", None), ("١s", None), ("1_0s", None), ("inf", None)),
    ],
)
def test_what_is_a_duration(text, seconds):
    assert parse_duration(text) == seconds
    if seconds is not None:
        assert re.search(PATTERN, text)


PARTS = st.lists(
    st.tuples(st.sampled_from(list(UNITS)), st.integers(0, 999)), min_size=1, unique_by=lambda p: p[0]
)


@given(PARTS)
def test_any_units_in_order_add_up(parts):
    parts.sort(key=lambda part: -UNITS[part[0]])
    text = "".join(f"{number}{unit}" for unit, number in parts)
    assert parse_duration(text) == pytest.approx(sum(number * UNITS[unit] for unit, number in parts))


@over("value", [True, None, [], float("nan"), float("inf"), 10**400, "nan", "soon"])
def test_what_is_no_number_of_seconds(value):
    assert seconds_of(value) is None
