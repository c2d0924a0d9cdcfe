"""Clocks that change as docs/schedules.md tells it; which moments are made up for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.domain.automations.missed_run_policy import (
    Due,
    SchedulePolicy,
    check_conduct,
    due_moments,
    latest_moments,
    moments,
    too_late,
)
from noetl.domain.automations.schedules import Timing, instant, next_fires, parse_instant
from noetl.domain.errors import InvalidInputError
from tests.parts import over

PAGE = (Path(__file__).parents[4] / "docs" / "schedules.md").read_text()
ROW = re.compile(r"^\| `([^`]+)` \| (\S+/\S+|UTC) \| (\d{4}-\d{2}-\d{2}) \| ([^|]+) \|", re.MULTILINE)
ROWS = [found.groups() for found in ROW.finditer(PAGE.partition("<!-- moments -->")[2])]
RHYTHMS = st.sampled_from(
    [
        Timing(cron="*/20 * * * *", timezone="America/New_York"),
        Timing(cron="30 2 * * *", timezone="Australia/Lord_Howe"),
        Timing(cron="0 6 * * 1-5", timezone="Asia/Kathmandu"),
        Timing(rate="7 minutes", anchor=1_699_999_000.0),
        Timing(rate="1 day", timezone="Europe/Berlin", anchor=1_699_999_000.0),
    ]
)


def test_the_table_has_what_is_odd_about_clocks():
    assert len(ROWS) >= 12
    assert {"Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia"} <= {
        zone for _, zone, _, _ in ROWS
    }


@over(("cron", "zone", "day", "told"), ROWS, ids=lambda value: str(value)[:24])
def test_a_schedule_fires_as_the_page_says(cron, zone, day, told):
    expected = [parse_instant(f"{text.replace(' ', 'T')}:00Z") for text in told.strip().split(", ")]
    timing = Timing(cron=cron, timezone=zone)
    found = next_fires(timing, expected[0] - 1, len(expected))
    assert [instant(at) for at in found] == [instant(at) for at in expected]
    assert abs(expected[0] - parse_instant(f"{day}T00:00:00Z")) < 86_400 or "29 2" in cron


def test_a_rate_counts_real_hours_through_a_change_of_the_clock():
    anchor = parse_instant("2026-03-28T07:00:00Z")
    timing = Timing(rate="1 day", timezone="Europe/Berlin", anchor=anchor)
    assert [instant(at) for at in next_fires(timing, anchor, 2)] == [
        "2026-03-29T07:00:00Z",
        "2026-03-30T07:00:00Z",
    ], "08:00 by the clock in winter, 09:00 in summer"


@given(RHYTHMS, st.integers(1_700_000_000, 1_800_000_000), st.integers(0, 3_000_000), st.integers(1, 30))
def test_the_latest_moments_are_the_end_of_all_of_them(timing, since, length, count):
    everything = moments(timing, since, since + length)
    assert latest_moments(timing, since, since + length, count) == everything[-count:]
    assert all(since <= at <= since + length for at in everything)


@given(
    RHYTHMS,
    st.integers(1_700_000_000, 1_800_000_000),
    st.floats(0, 1e6),
    st.sampled_from(["once", "all", "none"]),
)
def test_what_is_due_is_ascending_and_never_ahead(timing, start, away, catch_up):
    (since,) = next_fires(timing, start, 1)
    now = since + away
    conduct = SchedulePolicy(catch_up, 5)
    times, dropped, left_out = due_moments(conduct, timing, since, now)
    missed = moments(timing, since, now)
    others = [at for at in missed if not times or at < times[0]]
    assert left_out == ((others[0], others[-1]) if others else None)
    if catch_up == "all":
        assert times == missed[-5:]
    elif catch_up == "once" or now - missed[-1] < 60:
        assert times == missed[-1:]
    else:
        assert (times, dropped) == ([], missed[-1])
    assert dropped is None or not times


def test_a_moment_that_its_timing_does_not_know_is_due_all_the_same():
    timing = Timing(rate="1 hour", anchor=1000.0)
    assert due_moments(SchedulePolicy(), timing, 500.0, 600.0).times == [500.0]
    assert due_moments(SchedulePolicy(), timing, 500.0, 4600.0) == Due([4600.0], left_out=(500.0, 500.0))


def test_what_is_told_at_once_or_again_is_never_too_late():
    timing = Timing(cron="0 * * * *")
    for conduct in (SchedulePolicy("none"), SchedulePolicy("once"), SchedulePolicy("all", 1)):
        assert too_late(conduct, timing, 7200.0, None, 7300.0) == ""
        assert too_late(conduct, timing, 7200.0, 7200.0, 99_999.0) == "", "its start is looked up"
    assert too_late(SchedulePolicy("once"), timing, 7200.0, 3600.0, 99_999.0) == "", (
        "the newest that was told of"
    )


@over(
    "conduct",
    [
        SchedulePolicy("often"),
        SchedulePolicy(overlap="queue"),
        SchedulePolicy(catch_up_max=0),
        SchedulePolicy("all", 1001),
    ],
)
def test_a_conduct_that_is_none_is_refused(conduct):
    with pytest.raises(InvalidInputError) as refused:
        check_conduct(conduct)
    assert refused.value.code == "invalid_schedule"
