"""Schedules in a store: who owns a name, what is due, and that one moment is settled once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from noetl.ports.automations.schedule_store import ScheduleRow, ScheduleStore, Skipped
from tests.doubles.schedule_store import MemoryScheduleStore

DAILY = ScheduleRow(
    "etl.daily",
    "etl/daily",
    1_800_000_000.0,
    cron="0 6 * * *",
    timezone="Europe/Berlin",
    payload={"n": 12345678901234567890123, "text": "ä\0\ud800", "list": [None, {"b": 1, "a": 2}]},
    declared=True,
    next_at=1_800_003_600.0,
    catch_up="all",
    catch_up_max=7,
    overlap="skip",
)


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def schedules(request: pytest.FixtureRequest) -> Iterator[ScheduleStore]:
    if request.param == "memory":
        yield MemoryScheduleStore()
        return
    from noetl.adapters.postgres.schedule_store import PostgresScheduleStore

    store = PostgresScheduleStore(request.getfixturevalue("database"))
    yield store
    store.close()


def rated(name: str, next_at: float | None, **other: Any) -> ScheduleRow:
    return ScheduleRow(name, f"path/{name}", 100.0, rate="5 minutes", next_at=next_at, **other)


def test_what_is_put_is_kept_whole(schedules):
    by_hand = rated("by_hand", None, version=3, enabled=False)
    assert schedules.put(DAILY) and schedules.put(by_hand)
    assert schedules.get("etl.daily") == DAILY
    assert schedules.get("by_hand") == by_hand
    assert schedules.get("other") is None
    assert list(schedules.get("etl.daily").payload["list"][1]) == ["b", "a"]


def test_a_new_definition_replaces_the_old_one_but_not_its_past_nor_its_pause(schedules):
    schedules.put(DAILY)
    assert schedules.fired(DAILY, 1_800_003_600.0, next_at=1_800_090_000.0, execution_id=2**62, error="")
    schedules.set_paused("etl.daily", True, 1_800_090_000.0)
    changed = ScheduleRow(
        "etl.daily", "etl/daily", 1_800_010_000.0, rate="1 hour", version=2, next_at=1_800_013_600.0
    )
    assert schedules.put(changed)
    assert schedules.get("etl.daily") == replace(
        changed, paused=True, last_at=1_800_003_600.0, last_execution=2**62, latest_execution=2**62
    )


def test_a_name_belongs_to_one_path(schedules):
    schedules.put(DAILY)
    assert not schedules.put(replace(DAILY, path="etl/other", cron="1 1 * * *"))
    assert schedules.get("etl.daily") == DAILY


def test_a_made_schedule_has_no_past(schedules):
    schedules.put(
        replace(DAILY, paused=True, last_at=1.0, last_execution=5, last_error="x", latest_execution=5)
    )
    assert schedules.get("etl.daily") == DAILY


def test_names_are_listed_by_bytes_page_by_page(schedules):
    for name in ("b", "a-2", "B", "a.1", "_"):
        schedules.put(rated(name, None))
    assert [row.name for row in schedules.entries(limit=10)] == ["B", "_", "a-2", "a.1", "b"]
    assert [row.name for row in schedules.entries(limit=2, after="_")] == ["a-2", "a.1"]


def test_due_is_what_is_active_and_has_come_longest_overdue_first(schedules):
    schedules.put(rated("later", 1001.0))
    schedules.put(rated("now", 1000.0))
    schedules.put(rated("overdue", 10.0))
    schedules.put(rated("never", None))
    schedules.put(rated("disabled", 10.0, enabled=False))
    schedules.put(rated("paused", 10.0))
    schedules.set_paused("paused", True, 10.0)
    assert [row.name for row in schedules.due(1000.0, 10)] == ["overdue", "now"]
    assert [row.name for row in schedules.due(1000.0, 1)] == ["overdue"]


def test_one_moment_is_settled_once(schedules):
    schedules.put(DAILY)
    assert schedules.fired(DAILY, 1_800_003_600.0, next_at=1_800_090_000.0, execution_id=7)
    assert not schedules.fired(DAILY, 1_800_003_600.0, next_at=None, execution_id=8, error="late")
    assert not schedules.fired(DAILY, 1_799_999_999.0, next_at=None, execution_id=8)
    row = schedules.get("etl.daily")
    assert (row.next_at, row.last_at, row.last_execution, row.last_error) == (
        1_800_090_000.0,
        1_800_003_600.0,
        7,
        "",
    )
    assert schedules.fired(
        row, 1_800_090_000.0, next_at=None, execution_id=None, error="no playbook \0\ud800"
    )
    row = schedules.get("etl.daily")
    assert (row.next_at, row.last_execution, row.latest_execution) == (None, None, 7)
    assert row.last_error.startswith("no playbook ")


def test_what_started_nothing_is_remembered_until_something_else_does(schedules):
    schedules.put(DAILY)
    first, second = Skipped(1_800_003_600.0, "missed \0\ud800"), Skipped(1_800_090_000.0, "in the way")
    assert schedules.fired(
        DAILY, first.at, next_at=None, execution_id=None, error="x", skipped={"catch_up": first}
    )
    assert not schedules.fired(DAILY, first.at, next_at=None, execution_id=None, skipped={"overlap": second})
    assert schedules.fired(DAILY, second.at, next_at=None, execution_id=7)
    row = schedules.get("etl.daily")
    assert (row.skipped_at, row.last_error) == (first.at, "") and row.skipped_reason.startswith("missed ")
    schedules.put(replace(DAILY, version=3))
    assert schedules.get("etl.daily").skipped_at == first.at
    assert schedules.fired(DAILY, second.at + 1, next_at=None, execution_id=8, skipped={"overlap": second})
    row = schedules.entries(limit=1)[0]
    assert (row.skipped_at, row.skipped_reason, row.last_execution) == (*second, 8)


def test_the_newest_moment_that_started_nothing_is_kept_for_each_cause(schedules):
    schedules.put(DAILY)
    at = 1_800_003_600.0
    missed, way = Skipped(at - 1, "it was missed \0\ud800"), Skipped(at, "execution 7 still runs")
    both = {"overlap": way, "catch_up": missed}
    assert schedules.fired(DAILY, at, next_at=None, execution_id=None, skipped=both)
    row = schedules.get("etl.daily")
    assert (row.skipped_at, row.skipped_reason, row.skips["overlap"]) == (*way, way)
    assert row.skips["catch_up"].at == missed.at and row.skips["catch_up"].reason.startswith("it was missed ")
    assert not schedules.fired(DAILY, at, next_at=None, execution_id=None, skipped={"refused": way})
    schedules.put(replace(DAILY, version=3))
    later = Skipped(at + 9, "no such playbook")
    assert schedules.fired(DAILY, later.at, next_at=None, execution_id=None, skipped={"refused": later})
    again = Skipped(at + 10, "execution 8 still runs")
    assert schedules.fired(DAILY, again.at, next_at=None, execution_id=None, skipped={"overlap": again})
    assert schedules.fired(DAILY, at + 11, next_at=None, execution_id=9)
    (found,) = schedules.due(at, 1) or schedules.entries(limit=1)
    assert found.skips == {"catch_up": row.skips["catch_up"], "refused": later, "overlap": again}
    assert (found.skipped_at, found.skipped_reason) == again


def test_a_firing_does_not_touch_another_timing(schedules):
    schedules.put(DAILY)
    schedules.put(replace(DAILY, anchor=1_800_000_001.0, next_at=5.0))
    assert not schedules.fired(DAILY, 1_800_003_600.0, next_at=6.0, execution_id=7)
    assert schedules.get("etl.daily").next_at == 5.0
    assert not schedules.fired(rated("gone", None), 1.0, next_at=None, execution_id=1)


def test_a_next_time_that_is_settled_is_passed_over_by_one_that_read_it(schedules):
    schedules.put(DAILY)
    assert schedules.pass_over(DAILY, 1_800_090_000.0)
    assert schedules.get("etl.daily") == replace(DAILY, next_at=1_800_090_000.0), "nothing fired"
    assert not schedules.pass_over(DAILY, 5.0), "its next time is another by now"
    moved = schedules.get("etl.daily")
    assert not schedules.pass_over(replace(moved, anchor=5.0), 5.0), "by another timing"
    assert not schedules.pass_over(replace(moved, name="gone"), 5.0)
    assert schedules.pass_over(moved, None) and schedules.get("etl.daily").next_at is None
    assert schedules.pass_over(replace(moved, next_at=None), 5.0)


def test_of_many_that_settle_one_moment_one_is_told_so(schedules):
    schedules.put(DAILY)
    answers: list[bool] = []

    def settle() -> None:
        answers.append(schedules.fired(DAILY, 1_800_003_600.0, next_at=1_800_090_000.0, execution_id=7))

    threads = [threading.Thread(target=settle) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] * 5 + [True]


def test_pausing_and_deleting_tell_whether_there_was_one(schedules):
    schedules.put(DAILY)
    assert schedules.set_paused("etl.daily", True, None) == replace(DAILY, paused=True, next_at=None)
    assert schedules.set_paused("nobody", True, None) is None
    assert schedules.delete("etl.daily") and not schedules.delete("etl.daily")


def test_a_playbook_takes_back_what_it_declared_and_nothing_else(schedules):
    path = {"path": "etl/daily"}
    schedules.put(DAILY)
    schedules.put(replace(DAILY, name="older"))
    schedules.put(replace(rated("by_hand", None), **path))
    schedules.put(rated("other", None, declared=True))
    assert list(schedules.delete_declared("etl/daily", keep="etl.daily")) == ["older"]
    assert list(schedules.delete_declared("etl/daily")) == ["etl.daily"]
    assert [row.name for row in schedules.entries(limit=10)] == ["by_hand", "other"]


def test_what_was_started_for_a_moment_is_remembered_and_the_first_word_stays(schedules):
    first, second, third = (1_800_003_600.0 + 86_400 * day for day in range(3))
    schedules.put(DAILY)
    schedules.keep_moment("etl.daily", first, 1)
    assert schedules.fired(DAILY, second, next_at=third, execution_id=2)
    assert not schedules.fired(DAILY, first, next_at=third, execution_id=3), "an earlier moment"
    schedules.fired(DAILY, third, next_at=None, execution_id=None, error="no playbook")
    schedules.keep_moment("etl.daily", second, 9)
    schedules.keep_moment("nobody", first, 9)
    assert list(schedules.moments("etl.daily", first, third).items()) == [(first, 1), (second, 2)]
    assert dict(schedules.moments("etl.daily", first + 1, second)) == {second: 2}
    assert not schedules.moments("etl.daily", third, third) and not schedules.moments("nobody", first, third)
    schedules.put(replace(DAILY, anchor=1_800_000_001.0, next_at=5.0))
    assert not schedules.fired(DAILY, third, next_at=6.0, execution_id=4), "by another timing"
    assert schedules.moments("etl.daily", third, third) == {third: 4}


def test_what_was_started_goes_with_the_schedule(schedules):
    for gone in (lambda: schedules.delete("etl.daily"), lambda: schedules.delete_declared("etl/daily")):
        schedules.put(DAILY)
        schedules.keep_moment("etl.daily", 5.0, 1)
        gone()
        schedules.put(DAILY)
        assert not schedules.moments("etl.daily", 0.0, 10.0)


def test_schedules_of_a_playbook_are_found_by_its_path(schedules):
    for row in (DAILY, replace(DAILY, name="another", declared=False, enabled=False), rated("b", None)):
        schedules.put(row)
    assert [one.name for one in schedules.of_path("etl/daily", limit=9)] == ["another", "etl.daily"]
    assert [one.name for one in schedules.of_path("etl/daily", limit=1)] == ["another"]
    assert list(schedules.of_path("etl", limit=9)) == []
