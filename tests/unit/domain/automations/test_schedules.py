"""When schedules fire: clocks that jump, days that never come, and what may be written."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.domain.automations import schedules
from noetl.domain.automations.schedules import Timing, instant, next_fire, next_fires, parse_instant
from noetl.domain.errors import InvalidInputError
from tests.parts import over

BERLIN = "Europe/Berlin"


def fires(cron: str, after: str, count: int, timezone: str = "UTC") -> list[str]:
    timing = schedules.check_timing(Timing(cron=cron, timezone=timezone))
    return [instant(at) for at in next_fires(timing, parse_instant(after), count)]


@over(
    ("cron", "after", "expected"),
    [
        ("0 6 * * 1-5", "2026-03-06T06:00:00Z", ["2026-03-09T06:00:00Z", "2026-03-10T06:00:00Z"]),
        ("*/20 23 31 12 *", "2026-01-01T00:00:00Z", ["2026-12-31T23:00:00Z", "2026-12-31T23:20:00Z"]),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        ("0 0 * * sun", "2026-03-06T06:00:00Z", ["2026-03-08T00:00:00Z", "2026-03-15T00:00:00Z"]),
        ("0 0 * * 7", "2026-03-06T06:00:00Z", ["2026-03-08T00:00:00Z", "2026-03-15T00:00:00Z"]),
        ("0 0 1 jan,jul *", "2026-03-06T06:00:00Z", ["2026-07-01T00:00:00Z", "2027-01-01T00:00:00Z"]),
    ],
)
def test_cron_fires_when_it_says(cron, after, expected):
    assert fires(cron, after, 2) == expected


def test_a_fixed_time_that_the_clock_leaves_out_comes_right_after_the_gap():
    found = fires("30 2 * * *", "2026-03-27T12:00:00Z", 3, BERLIN)
    assert found == ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]


def test_readings_of_the_clock_that_mean_one_moment_fire_once():
    found = fires("0,30 2,3 * * *", "2026-03-29T00:00:00Z", 3, BERLIN)
    assert found == ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:00:00Z"]


def test_a_fixed_time_that_comes_twice_fires_once():
    assert fires("30 2 * * *", "2026-10-24T12:00:00Z", 2, BERLIN) == [
        "2026-10-25T00:30:00Z",
        "2026-10-26T01:30:00Z",
    ]
    between = fires("30 2 * * *", "2026-10-25T00:45:00Z", 1, BERLIN)
    assert between == ["2026-10-26T01:30:00Z"], "also when asked in the repeated hour"


def test_what_runs_all_day_runs_in_every_real_hour():
    found = fires("0 * * * *", "2026-10-24T23:30:00Z", 4, BERLIN)
    assert found == [f"2026-10-25T0{hour}:00:00Z" for hour in range(4)]


@given(
    st.sampled_from(
        ["30 2 * * *", "*/7 * * * *", "0 1-3 * * *", "15,45 */2 * * *", "59 23 * * 0", "0 0 1 * *"]
    ),
    st.sampled_from(
        [BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Caracas", "UTC"]
    ),
    st.integers(1_500_000_000, 1_900_000_000),
)
def test_moments_are_after_what_was_asked_ascend_and_do_not_depend_on_where_one_begins(cron, timezone, after):
    timing = Timing(cron=cron, timezone=timezone)
    found = next_fires(timing, after, 12)
    assert len(found) == 12
    assert found[0] > after
    assert found == sorted(set(found))
    assert found[1:] == next_fires(timing, found[0], 11)
    for at in found:
        assert at % 60 == 0
        assert datetime.fromtimestamp(at, UTC).astimezone(ZoneInfo(timezone)).second == 0


@given(st.integers(1, 500), st.floats(0, 4e9), st.floats(0, 4e9))
def test_a_rate_counts_from_its_anchor(minutes, anchor, after):
    timing = Timing(rate=f"{minutes} minutes", anchor=anchor)
    at = next_fire(timing, after)
    assert at is not None and at > after and at > anchor
    assert (at - int(anchor)) % (minutes * 60) == 0
    assert at - minutes * 60 <= max(after, int(anchor)), "none is left out"


def test_nothing_is_computed_beyond_the_calendar():
    assert next_fire(Timing(cron="0 0 * * *"), schedules.LATEST) is None
    assert next_fire(Timing(rate="1 day"), float("inf")) is None


@over(
    ("cron", "said"),
    [
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("61 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("0 0 * 13 *", "bad month"),
        ("0 0 * * MOO", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("0 0 1 * 1", "both day-of-month and day-of-week"),
        ("0 0 1 1 * 2026", "has 6 fields"),
        ("@daily", "has 1 fields"),
        ("", "has 0 fields"),
        ("0 0 ? * *", "day-of-month '?'"),
        ("0 0 5#1 * *", "day-of-month '5#1'"),
        ("0 0 L * *", "day-of-month 'L'"),
        ("0 0 * * 5L", "day-of-week '5L'"),
        ("٣ 0 * * *", "minute"),
        ("{{ x }} * * * *", "fields"),
        ("- * * * *", "minute '-'"),
        ("1," * 5000 + "1 * * * *", "minute"),
    ],
)
def test_a_cron_that_cannot_be_kept_is_refused_with_its_reason(cron, said):
    with pytest.raises(InvalidInputError) as refused:
        schedules.check_cron(cron)
    assert refused.value.code == "invalid_cron"
    assert said in refused.value.message
    assert refused.value.hint


@given(st.text(alphabet="0123456789*,-/ SUNMOJAFL#?W", max_size=30))
def test_any_text_is_either_a_cron_that_fires_or_refused(text):
    try:
        cron = schedules.check_cron(text)
    except InvalidInputError:
        return
    assert next_fire(Timing(cron=cron), 1_800_000_000) is not None


@over(
    ("rate", "canonical", "seconds"),
    [
        ("1 minutes", "1 minute", 60),
        (" 5  minutes", "5 minutes", 300),
        ("2 hour", "2 hours", 7200),
        ("1 day", "1 day", 86400),
    ],
)
def test_a_rate_has_one_spelling(rate, canonical, seconds):
    assert schedules.check_rate(rate) == canonical
    assert schedules.rate_seconds(rate) == seconds


@over(
    "rate",
    ["0 minutes", "5", "5 seconds", "-1 hours", "1.5 hours", "367 days", "٣ days", "", "9" * 99 + " days"],
)
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(InvalidInputError) as refused:
        schedules.check_rate(rate)
    assert refused.value.code == "invalid_rate"


@over(
    "name",
    [
        "Mars/Base",
        "",
        "../etc/passwd",
        "/etc/localtime",
        "Europe",
        "Europe/",
        "europe berlin",
        "a" * 5000,
        "Europe\0",
        "posixrules",
        "localtime",
        "Factory",
        "right/UTC",
        "posix/Europe/Berlin",
    ],
)
def test_a_zone_that_is_none_is_refused(name):
    with pytest.raises(InvalidInputError) as refused:
        schedules.zone(name)
    assert refused.value.code == "invalid_timezone"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-03-01T07:00:00.900+01:00", 1_772_344_800.0),
        ("1969-12-31T23:59:59Z", -1.0),
    ],
)
def test_a_moment_is_read_with_its_zone(text, at):
    assert parse_instant(text) == at
    assert parse_instant(instant(at)) == at


@over(
    "text",
    [
        "2026-03-01",
        "2026-03-01T06:00:00",
        "2026-02-30T06:00:00Z",
        "now",
        "1772344800",
        "",
        "0000-01-01T00:00:00Z",
    ],
)
def test_a_moment_without_zone_or_sense_is_refused(text):
    with pytest.raises(InvalidInputError):
        parse_instant(text)


@over("path", ["etl/daily", "a" * 200, "reports/Zürich täglich", "x", "..", "日本"])
def test_every_path_has_a_name(path):
    assert schedules.check_name(schedules.name_for(path))


def test_names_of_different_paths_differ():
    assert schedules.name_for("etl/daily") == "etl.daily"
    assert len({schedules.name_for(path) for path in ("a b", "a-b", "a?b", "a" * 99, "a" * 98)}) == 5
