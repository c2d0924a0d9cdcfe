"""Starting moments of the past: each once, whoever asked before."""

from __future__ import annotations

import pytest

from noetl.domain.automations.schedules import instant
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError
from noetl.services.automations import backfill as module
from noetl.services.automations.backfill import BackfillRequest, backfill
from noetl.services.automations.fire_schedule import fire_schedule
from noetl.services.automations.schedules import ScheduleDeps, ScheduleRequest, delete_schedule, put_schedule
from tests.unit.services.test_schedules import MONDAY, World

FROM, TO = "2026-02-27T00:00:00Z", "2026-03-02T05:00:00Z"
DAYS = ["2026-02-27T06:00:00Z", "2026-02-28T06:00:00Z", "2026-03-01T06:00:00Z"]


@pytest.fixture
def world():
    made = World()
    made.register("cron: 0 6 * * *, payload: { n: 1 }")
    return made


def start(world, since=FROM, until=TO, name="etl.daily", **options):
    sent = []
    done = backfill(world.manage, world.deps, name, BackfillRequest(since, until, **options), sent.append)
    assert {str(event.execution_id) for event in sent} == {
        one.execution_id for one in done.moments if one.status == "started"
    }
    return done, sent


def told(done):
    return [(one.at, one.status) for one in done.moments]


def test_every_moment_of_the_range_starts_once(world):
    done, sent = start(world)
    assert told(done) == [(day, "started") for day in DAYS] and done.next is None
    assert [event.payload for event in sent] == [
        {"n": 1, "schedule": {"name": "etl.daily", "at": day}} for day in DAYS
    ]
    assert {(event.principal, event.principal_kind) for event in sent} == {("etl.daily", "schedule")}
    again, sent = start(world)
    assert told(again) == [(day, "existing") for day in DAYS] and not sent
    assert [one.execution_id for one in again.moments] == [one.execution_id for one in done.moments]
    row = world.row()
    assert (row.last_at, row.latest_execution) == (None, None), "it is no firing"


def test_only_what_was_missed_is_started_and_nothing_by_a_dry_run(world):
    world.now -= 86_400
    fired = fire_schedule("etl.daily", MONDAY - 2 * 86_400 + 3600, world.table, world.deps)
    world.now += 86_400
    planned, sent = start(world, dry_run=True)
    assert told(planned) == [(DAYS[0], "pending"), (DAYS[1], "existing"), (DAYS[2], "pending")]
    assert planned.moments[1].execution_id == str(fired.execution_id) and planned.dry_run and not sent
    assert len(world.store.executions(limit=9)) == 1
    done, _ = start(world, only_missed=True)
    assert told(done) == [(DAYS[0], "started"), (DAYS[2], "started")]
    assert told(start(world, only_missed=True)[0]) == []


def test_a_key_that_is_known_is_enough_when_its_moment_was_not_remembered(world, monkeypatch):
    monkeypatch.setattr(world.table, "keep_moment", lambda *args: None)
    first, _ = start(world)
    second, sent = start(world)
    assert [one.execution_id for one in second.moments] == [one.execution_id for one in first.moments]
    assert not sent


def test_a_backfill_and_the_schedule_itself_never_start_one_moment_twice(world):
    world.register("rate: 1 hour", path="hourly")
    table = ScheduleDeps(world.table, None, world.catalog, world.programs, lambda: world.now)
    world.now += 3600
    at = instant(world.now)
    done = backfill(table, world.deps, "hourly", BackfillRequest(at, at), lambda event: None)
    (fired,) = (one for one in world.fire() if one.name == "hourly")
    assert (str(fired.execution_id), fired.event) == (done.moments[0].execution_id, None)


def test_a_long_range_is_started_in_parts(world, monkeypatch):
    first, _ = start(world, limit=2)
    assert told(first) == [(DAYS[0], "started"), (DAYS[1], "started")] and first.next == DAYS[2]
    rest, _ = start(world, since=first.next, limit=2)
    assert told(rest) == [(DAYS[2], "started")] and rest.next is None
    monkeypatch.setattr(module, "LOOKED_AT", 2)
    looked, _ = start(world, only_missed=True)
    assert looked.moments == [] and looked.next == DAYS[2]


def test_a_range_through_a_change_of_the_clock_has_its_moments(world):
    world.register("cron: 30 2 * * *, timezone: Europe/Berlin", path="night")
    done, _ = start(world, "2025-10-25T00:00:00Z", "2025-10-27T12:00:00Z", "night", dry_run=True)
    assert [one.at for one in done.moments] == [
        "2025-10-25T00:30:00Z",
        "2025-10-26T00:30:00Z",
        "2025-10-27T01:30:00Z",
    ]


def test_a_paused_schedule_is_backfilled_and_overlaps_do_not_matter(world):
    world.register("cron: 0 6 * * *, overlap: skip, enabled: false", path="off")
    done, _ = start(world, name="off")
    assert [one.status for one in done.moments] == ["started"] * 3


def test_a_refusal_in_the_middle_tells_where_it_stopped(world, monkeypatch):
    begin = module.start_moment

    def refused(row, at, deps, *, answered):
        assert answered, "a person waits for what a backfill says"
        if instant(at) == DAYS[1]:
            raise InvalidInputError("no", code="payload_invalid")
        return begin(row, at, deps, answered=answered)

    monkeypatch.setattr(module, "start_moment", refused)
    done, _ = start(world)
    assert told(done) == [(DAYS[0], "started"), (DAYS[1], "refused")]
    assert (done.moments[1].error, done.next) == ("payload_invalid: no", DAYS[1])


def test_a_store_that_goes_away_is_told_and_nothing_is_twice(world, monkeypatch):
    create, calls = world.store.create, []

    def away(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise InfrastructureError("away")
        return create(*args, **kwargs)

    monkeypatch.setattr(world.store, "create", away)
    with pytest.raises(InfrastructureError):
        start(world)
    done, _ = start(world)
    assert [one.status for one in done.moments] == ["existing", "started", "started"]


@pytest.mark.parametrize(
    ("wish", "error", "code"),
    [
        ({"name": "etl.dayly"}, NotFoundError, "schedule_not_found"),
        ({"since": TO, "until": FROM}, InvalidInputError, "invalid_range"),
        ({"until": "2026-03-02T05:00:01Z"}, InvalidInputError, "invalid_range"),
        ({"since": "2026-02-27"}, InvalidInputError, "invalid_time"),
        ({"since": "0001-01-01T00:00:00Z"}, InvalidInputError, "invalid_range"),
        ({"limit": 0}, InvalidInputError, "invalid_parameter"),
        ({"limit": 501}, InvalidInputError, "invalid_parameter"),
        ({"name": "rated"}, InvalidInputError, "backfill_rate"),
    ],
)
def test_what_cannot_be_backfilled_is_refused(world, wish, error, code):
    world.register("rate: 1 hour, name: rated", path="rated")
    with pytest.raises(error) as refused:
        start(world, **wish)
    assert refused.value.code == code
    assert world.store.executions(limit=9) == []


def test_a_payload_that_does_not_fit_any_more_is_told_at_once(world):
    from noetl.ports.automations.schedule_store import ScheduleRow

    world.register(extra="input: { type: object, required: [day] }\n")
    world.table.put(ScheduleRow("by_hand", "etl/daily", MONDAY, cron="0 6 * * *"))
    with pytest.raises(InvalidInputError) as refused:
        start(world, name="by_hand")
    assert refused.value.code == "payload_invalid"


def test_a_name_that_was_given_to_another_playbook_starts_that_one():
    """Whoever fires or backfills it: the former playbook was started for the same moments."""
    world = World()
    for path in ("old/report", "new/report"):
        world.register("", path=path)
    started = {}
    for path in ("old/report", "new/report", "old/report"):
        put_schedule(world.manage, ScheduleRequest(path, "nightly", cron="0 6 * * *"))
        done, _ = start(world, name="nightly")
        fired = fire_schedule("nightly", MONDAY + 3600, world.table, world.deps)
        ids = [int(one.execution_id) for one in done.moments] + [fired.execution_id]
        assert {world.store.info(one).path for one in ids} == {path}
        assert started.setdefault(path, ids) == ids, "what its playbook started for these moments stays known"
        delete_schedule(world.manage, "nightly")
    assert not set(started["old/report"]) & set(started["new/report"])
