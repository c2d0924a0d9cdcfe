"""Registering, handling and firing schedules over stores in memory, with a clock that is set."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from noetl.adapters.memory import MemoryCatalog, MemoryExecutionStore
from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain.automations.schedules import instant, parse_instant
from noetl.domain.errors import ConflictError, InfrastructureError, InvalidInputError, NotFoundError
from noetl.domain.events import Cancel, Start
from noetl.kinds.registry import default_registry
from noetl.ports.automations.schedule_store import ScheduleRow
from noetl.runtime.programs import Programs
from noetl.services.automations import schedules
from noetl.services.automations.fire_schedule import fire_due, fire_schedule
from noetl.services.automations.register_schedules import register_schedule
from noetl.services.automations.schedules import ScheduleDeps, ScheduleRequest
from noetl.services.executions.start_playbook import StartDeps
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.orchestrator.handle_events import handle_events
from tests.doubles.schedule_store import MemoryScheduleStore
from tests.doubles.schedules import MemorySchedules

MONDAY = parse_instant("2026-03-02T05:00:00Z")
SIX = "cron: 0 6 * * 1-5"
WORK = "workflow:\n  - step: start\n"
CALL = WORK + "    tool: { kind: http, url: 'http://a.test/' }\n"


class World:
    """One database, looked at by any number of processes."""

    def __init__(self) -> None:
        self.now = MONDAY
        self.store = MemoryExecutionStore(lambda: self.now)
        self.catalog = MemoryCatalog()
        self.programs = Programs(self.catalog, default_registry())
        self.table = MemoryScheduleStore()
        self.fires = MemorySchedules()
        bits = itertools.count()
        self.deps = StartDeps(
            self.store, self.catalog, self.programs, "me", lambda: self.now, lambda: next(bits)
        )
        self.manage = ScheduleDeps(self.table, self.fires, self.catalog, self.programs, lambda: self.now)

    def register(self, schedule: str = "", path: str = "etl/daily", extra: str = "", work: str = WORK):
        block = f"  schedule: {{ {schedule} }}\n" if schedule else ""
        text = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: it\n  path: {path}\n{block}{extra}{work}"
        entry = self.programs.register(text, source_name="it.yaml")
        program = self.programs(entry.program)
        return register_schedule(entry.path, program, store=self.table, schedules=self.fires, now=self.now)

    def fire(self):
        return list(fire_due(self.table, self.deps))

    def row(self, name: str = "etl.daily"):
        return self.table.get(name)


@pytest.fixture
def world():
    return World()


def test_registering_puts_a_schedule_into_the_table_and_where_it_fires(world):
    world.register(f"{SIX}, timezone: Europe/Berlin, payload: {{ n: 1 }}")
    row, entry = world.row(), world.fires.get("etl.daily")
    assert (row.path, row.cron, row.timezone, row.payload) == (
        "etl/daily",
        "0 6 * * 1-5",
        "Europe/Berlin",
        {"n": 1},
    )
    assert row.declared and instant(row.next_at) == "2026-03-03T05:00:00Z", "six o'clock has just passed"
    assert (entry.cron, entry.timezone, entry.payload, entry.enabled, entry.version) == (
        "0 6 * * 1-5", "Europe/Berlin", {"n": 1}, True, None
    )  # fmt: skip


def test_registering_again_keeps_counting_and_what_was_paused_stays_so(world):
    world.register("rate: 1 hour")
    first = world.row()
    schedules.pause_schedule(world.manage, "etl.daily")
    world.now += 1800
    world.register("rate: 1 hour, payload: { n: 2 }")
    assert world.row().anchor == first.anchor and world.row().paused
    assert not world.fires.get("etl.daily").enabled
    schedules.resume_schedule(world.manage, "etl.daily")
    assert world.row().next_at == MONDAY + 3600
    world.register("rate: 2 hours")
    assert world.row().anchor == world.now and world.row().next_at == world.now + 7200


def test_a_moment_that_is_due_is_not_lost_by_registering(world):
    world.register("rate: 1 hour")
    world.now += 3700
    world.register("rate: 1 hour, payload: { n: 2 }")
    (fired,) = world.fire()
    assert fired.at == MONDAY + 3600 and fired.event.payload["n"] == 2


def test_a_version_without_a_schedule_or_with_another_name_takes_the_old_one_away(world):
    world.register(SIX)
    world.register(f"{SIX}, name: early")
    assert [row.name for row in world.table.entries(limit=9)] == ["early"]
    assert [entry.name for entry in world.fires.entries()] == ["early"]
    world.register("")
    assert not world.table.entries(limit=9) and not world.fires.entries()


def test_two_playbooks_cannot_have_one_name(world):
    world.register(f"{SIX}, name: early")
    with pytest.raises(ConflictError) as refused:
        world.register("rate: 1 day, name: early", path="other")
    assert refused.value.code == "schedule_name_taken" and "etl/daily" in refused.value.message
    assert world.row("early").cron and world.fires.get("early").cron, "the first one is as it was"


def test_due_fires_once_with_its_payload_and_counts_on(world):
    world.register("rate: 10 minutes, payload: { n: 1 }")
    assert world.fire() == []
    world.now += 600
    (fired,) = world.fire()
    told = {"name": "etl.daily", "at": "2026-03-02T05:10:00Z"}
    assert fired.event.payload == {"n": 1, "schedule": told}
    assert (fired.event.principal, fired.event.principal_kind) == ("etl.daily", "schedule")
    assert world.store.info(fired.execution_id).path == "etl/daily"
    row = world.row()
    assert (row.last_at, row.last_execution, row.next_at) == (world.now, fired.execution_id, world.now + 600)
    assert world.fire() == []


def test_what_was_missed_is_made_up_for_once(world):
    world.register("rate: 10 minutes")
    world.now += 600 * 50 + 5
    assert len(world.fire()) == 1
    assert world.row().next_at == MONDAY + 600 * 51
    assert world.fire() == []


@pytest.mark.parametrize(
    ("catch_up", "away", "expected"),
    [
        ("once", 3605, [3600]),
        ("none", 3605, [3600]),
        ("none", 3660, []),
        ("all, catch_up_max: 2", 3605, [3000, 3600]),
        ("all", 3605, [600, 1200, 1800, 2400, 3000, 3600]),
    ],
)
def test_what_is_done_about_missed_moments_is_the_schedules_choice(world, catch_up, away, expected):
    world.register(f"rate: 10 minutes, catch_up: {catch_up}")
    world.now += away
    fired = world.fire()
    started = [one for one in fired if one.execution_id is not None]
    assert [one.at - MONDAY for one in started] == expected
    assert [one.event.payload["schedule"]["at"] for one in started] == [instant(one.at) for one in started]
    assert len({one.execution_id for one in started}) == len(expected)
    row = world.row()
    assert row.next_at == MONDAY + 4200 and row.last_at == MONDAY + 3600
    assert row.last_error == ("" if expected else "missed: it was missed, and catch_up is none")
    assert world.fire() == []
    world.now = row.next_at
    assert world.fire()[0].execution_id is not None
    later = world.row()
    assert (later.skipped_at, later.skipped_reason) == (row.skipped_at, row.skipped_reason)
    newest = {6: None, 0: 3600}.get(len(expected), 3600 - 600 * len(expected))
    assert row.skipped_at == (None if newest is None else MONDAY + newest)
    if newest is not None:
        assert row.skipped_reason.startswith(
            f"it was missed with all since {instant(MONDAY + 600)}: catch_up is "
        )


@pytest.mark.parametrize("catch_up", ["once", "all, catch_up_max: 2"])
def test_an_overlap_after_missed_moments_leaves_the_reason_of_both(world, catch_up):
    world.register(f"rate: 10 minutes, overlap: skip, catch_up: {catch_up}")
    world.now += 600
    (before,) = world.fire()
    world.now += 3605
    assert {one.execution_id for one in world.fire()} == {None}
    row = world.row()
    newest = MONDAY + 600 * 7
    assert (row.skipped_at, row.skipped_reason) == (
        newest,
        f"overlap: execution {before.execution_id} still runs",
    )
    assert row.skips["overlap"] == (row.skipped_at, row.skipped_reason)
    missed = row.skips["catch_up"]
    assert missed.at == (newest - 600 if catch_up == "once" else newest - 1200)
    assert missed.reason.startswith(f"it was missed with all since {instant(MONDAY + 1200)}: catch_up is ")
    world.now = row.next_at
    world.fire()
    assert world.row().skips["catch_up"] == missed and world.row().skipped_at == newest + 600
    shown = schedules.view(world.row()).skips
    assert [one.cause for one in shown] == ["overlap", "catch_up"] and shown[1].at == instant(missed.at)


def test_a_start_that_is_refused_after_missed_moments_leaves_the_reason_of_both(world):
    world.register("rate: 10 minutes")
    world.table._rows["etl.daily"] = replace(world.row(), version=7)
    world.now += 3605
    world.fire()
    row = world.row()
    assert set(row.skips) == {"catch_up", "refused"} and row.skips["refused"].at == row.skipped_at
    assert row.skipped_reason == row.last_error == row.skips["refused"].reason


def test_making_up_for_all_goes_on_where_a_process_died(world, monkeypatch):
    world.register("rate: 10 minutes, catch_up: all")
    world.now += 1805
    create, calls = world.store.create, itertools.count()

    def away(*args, **kwargs):
        if next(calls) == 1:
            raise InfrastructureError("away")
        return create(*args, **kwargs)

    monkeypatch.setattr(world.store, "create", away)
    with pytest.raises(InfrastructureError):
        world.fire()
    assert world.row().next_at == MONDAY + 1200
    assert [one.at - MONDAY for one in world.fire()] == [1200, 1800]
    assert len(world.store.executions(limit=9)) == 3


def test_a_start_waits_for_no_one_skips_or_cancels_the_one_before(world):
    for overlap in ("allow", "skip", "cancel_previous"):
        world.register(f"rate: 10 minutes, overlap: {overlap}", path=overlap)
    world.now += 600
    before = {one.name: one.execution_id for one in world.fire()}
    world.now += 600
    fired = {one.name: one for one in world.fire()}
    assert fired["allow"].event and fired["allow"].cancelled is None
    assert fired["skip"].execution_id is None and world.row("skip").last_execution is None
    assert world.row("skip").last_error == f"overlap: execution {before['skip']} still runs"
    assert (world.row("skip").skipped_at, world.row("allow").skipped_at) == (world.now, None)
    replaced = fired["cancel_previous"]
    assert replaced.event and replaced.cancelled.execution_id == before["cancel_previous"]
    assert (replaced.cancelled.principal, replaced.cancelled.cascade) == ("cancel_previous", True)
    world.store._tables.executions[before["skip"]].status = "completed"
    world.now += 600
    (again,) = (one for one in world.fire() if one.name == "skip")
    assert again.event, "what it started before has ended"


@pytest.mark.parametrize(
    "error", [InfrastructureError("in use", code="database_busy"), TypeError("a defect")]
)
def test_what_a_firing_that_cannot_be_noted_began_is_handed_to_the_engine(world, monkeypatch, error):
    """It is this living process's, and the repeat of the firing finds it begun: nothing else would hand it on."""
    world.store.heartbeat("me", 6000)
    world.register("rate: 10 minutes, overlap: cancel_previous")
    world.now += 600
    (first,) = world.fire()
    world.now += 600

    def fail(*asked, **more):
        raise error

    with monkeypatch.context() as broken, pytest.raises(type(error)):
        broken.setattr(world.table, "fired", fail)
        world.fire()
    (again,) = world.fire()
    assert again.event is None and again.execution_id != first.execution_id
    left = world.store.undelivered("me", 10)
    assert [(type(one), one.execution_id) for one in left] == [
        (Start, again.execution_id),
        (Cancel, first.execution_id),
    ]


def test_a_repeat_cancels_nothing_that_it_started_itself(world):
    world.register("rate: 10 minutes, overlap: cancel_previous")
    world.now += 600
    (first,) = world.fire()
    world.now += 600
    unsaved = world.row()
    (second,) = world.fire()
    world.table._rows["etl.daily"] = unsaved  # whoever fired died before that was written
    (again,) = world.fire()
    assert again.execution_id == second.execution_id and again.event is None
    assert again.cancelled.event_id == second.cancelled.event_id, "asked for once"
    told = fire_schedule("etl.daily", second.at, world.table, world.deps)
    assert (told.execution_id, told.cancelled) == (second.execution_id, None)
    old = fire_schedule("etl.daily", first.at - 1, world.table, world.deps)
    assert old.execution_id is None and "later moment" in old.reason


def test_moments_that_are_told_late_follow_the_same_choice(world):
    for word in ("none", "once", "all, catch_up_max: 2"):
        world.register(f"rate: 1 hour, catch_up: {word}", path=word[:4].strip(","))

    def tell(name, minutes):
        return fire_schedule(name, MONDAY + 60 * minutes, world.table, world.deps)

    world.now += 3600 + 179
    assert tell("none", 60).event, "within the minutes that EventBridge and a cold start may take"
    world.now = MONDAY + 3 * 3600 + 600
    late = tell("none", 120)
    assert late.execution_id is None and "catch_up is none" in late.reason
    assert tell("once", 180).event and tell("once", 120).execution_id is None
    assert "catch_up_max" in tell("all", 60).reason
    assert tell("all", 120).event and tell("all", 180).event


def test_what_a_schedule_sends_wins_over_what_it_tells(world):
    extra = (
        "input: { type: object, properties: { schedule: { type: string } }, additionalProperties: false }\n"
    )
    world.register("rate: 10 minutes, payload: { schedule: mine }", extra=extra)
    world.now += 600
    (fired,) = world.fire()
    assert fired.event.payload == {"schedule": "mine"}
    world.register("rate: 10 minutes, payload: {}", extra=extra)
    world.now += 600
    (fired,) = world.fire()
    assert fired.event.payload["schedule"]["name"] == "etl.daily", "input is about the payload"


def test_processes_that_die_between_starting_and_remembering_start_nothing_twice(world):
    world.register("rate: 10 minutes")
    world.now += 600
    before = world.row()
    (first,) = world.fire()
    world.table._rows["etl.daily"] = before  # what a process that died had not written yet
    (again,) = world.fire()
    assert again.execution_id == first.execution_id and again.event is None
    told = fire_schedule("etl.daily", first.at, world.table, world.deps)
    assert told.execution_id == first.execution_id and told.event is None


def test_the_table_decides_when_somebody_still_tells_of_a_schedule(world):
    world.register("rate: 10 minutes")
    schedules.pause_schedule(world.manage, "etl.daily")
    assert "paused" in fire_schedule("etl.daily", MONDAY + 600, world.table, world.deps).reason
    world.now += 6000
    assert world.fire() == []
    world.register("rate: 10 minutes, enabled: false", path="off")
    assert "disabled" in fire_schedule("off", MONDAY + 600, world.table, world.deps).reason
    assert "no such" in fire_schedule("gone", MONDAY + 600, world.table, world.deps).reason
    assert world.store.executions(limit=9) == []


def test_a_start_that_is_refused_is_told_and_the_next_one_tried(world):
    world.register("rate: 10 minutes")
    world.register(extra="input: { type: object, required: [day] }\n")
    world.table.put(ScheduleRow("by_hand", "etl/daily", MONDAY, rate="10 minutes", next_at=MONDAY + 600))
    world.now += 600
    (fired,) = world.fire()
    assert fired.execution_id is None and "day" in fired.reason
    row = world.row("by_hand")
    assert row.last_error.startswith("payload_invalid") and row.next_at == world.now + 600
    world.register()
    world.now += 600
    (fired,) = world.fire()
    assert fired.execution_id and world.row("by_hand").last_error == ""


def test_a_moment_beyond_the_concurrency_limit_fails_and_the_next_one_starts(world):
    """No client waits for the answer of a schedule, so its execution exists and says why; the schedule goes on (docs/dsl/limits.md)."""
    limit = "executor: { spec: { concurrency: { key: k, limit: 1, on_excess: refuse } } }\n"
    world.register("rate: 10 minutes", extra=limit, work=CALL)
    engine = EngineDeps(
        world.store, MemoryResultStore(), world.programs, lambda path, version: "", lambda ref: None
    )
    ends = []
    for _ in range(3):
        world.now += 600
        (fired,) = world.fire()
        assert fired.event is not None and world.row().next_at == world.now + 600
        handle_events([fired.event], engine)
        ends.append(world.store.endings([fired.execution_id])[fired.execution_id])
        if len(ends) == 2:
            first = ends[0].info.execution_id
            handle_events([Cancel(first, "cancel", ends[0].info.program)], engine)
    assert [end.info.status for end in ends] == ["running", "failed", "running"]
    assert b"concurrency_limit" in ends[1].info.state


def test_an_error_that_trying_again_cures_leaves_a_schedule_due(world, monkeypatch):
    for path in ("a", "b"):
        world.register("rate: 10 minutes", path=path)
    world.now += 600

    def busy(path, *args, **kwargs):
        raise ConflictError("in use", code="in_use", retryable=True)

    monkeypatch.setattr(world.catalog, "get", busy)
    with pytest.raises(ConflictError):
        world.fire()
    monkeypatch.undo()
    assert [fired.at for fired in world.fire()] == [world.now] * 2


def test_a_store_that_is_away_loses_no_moment(world, monkeypatch):
    world.register("rate: 10 minutes")
    world.now += 600

    def away(*args, **kwargs):
        raise InfrastructureError("away")

    monkeypatch.setattr(world.store, "create", away)
    with pytest.raises(InfrastructureError):
        world.fire()
    monkeypatch.undo()
    (fired,) = world.fire()
    assert fired.at == MONDAY + 600


def test_a_schedule_that_cannot_be_fired_does_not_hold_up_the_others(world, monkeypatch):
    for path in ("a", "b", "c"):
        world.register("rate: 10 minutes", path=path)
    world.now += 600
    find = world.catalog.get

    def broken(path, *args, **kwargs):
        if path == "b":
            raise ValueError("a row that cannot be read")
        return find(path, *args, **kwargs)

    monkeypatch.setattr(world.catalog, "get", broken)
    fired = []
    with pytest.raises(ValueError, match="cannot be read"):
        for one in fire_due(world.table, world.deps):
            fired.append(one.name)
    assert fired == ["a", "c"] and world.row("b").next_at == world.now, "it is still due"


def test_a_schedule_by_hand(world):
    world.register(extra="input: { type: object, properties: { n: { type: integer } } }\n")
    wish = ScheduleRequest("etl/daily", name="hourly", rate="1 hours", payload={"n": 1}, version=1)
    made = schedules.put_schedule(world.manage, wish)
    row = made.row
    assert made.fresh and not schedules.put_schedule(world.manage, wish).fresh
    assert (row.rate, row.declared, row.next_at) == ("1 hour", False, MONDAY + 3600)
    shown = schedules.view(row)
    assert (shown.state, shown.next_at, shown.last_execution_id) == ("active", "2026-03-02T06:00:00Z", None)
    world.register()
    assert world.row("hourly"), "registering takes back only what a playbook declared"
    schedules.delete_schedule(world.manage, "hourly")
    assert world.row("hourly") is None and world.fires.get("hourly") is None


@pytest.mark.parametrize(
    ("wish", "error", "code"),
    [
        (ScheduleRequest("nowhere", rate="1 hour"), NotFoundError, "playbook_not_found"),
        (ScheduleRequest("etl/daily", rate="1 hour", version=7), NotFoundError, "playbook_not_found"),
        (ScheduleRequest("etl/daily"), InvalidInputError, "invalid_schedule"),
        (
            ScheduleRequest("etl/daily", rate="1 hour", cron="0 0 * * *"),
            InvalidInputError,
            "invalid_schedule",
        ),
        (ScheduleRequest("etl/daily", cron="0 0 30 2 *"), InvalidInputError, "invalid_cron"),
        (ScheduleRequest("etl/daily", rate="1 hour", timezone="Mars"), InvalidInputError, "invalid_timezone"),
        (ScheduleRequest("etl/daily", rate="1 hour", name="a b"), InvalidInputError, "invalid_schedule_name"),
        (
            ScheduleRequest("etl/daily", rate="1 hour", payload={"n": "x"}),
            InvalidInputError,
            "payload_invalid",
        ),
        (ScheduleRequest("etl/daily", rate="1 hour", name="early"), ConflictError, "schedule_declared"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(world, wish, error, code):
    world.register(
        f"{SIX}, name: early", extra="input: { type: object, properties: { n: { type: integer } } }\n"
    )
    with pytest.raises(error) as refused:
        schedules.put_schedule(world.manage, wish)
    assert refused.value.code == code
    assert [row.name for row in world.table.entries(limit=9)] == ["early"]


def test_a_name_that_is_not_there_is_told_with_what_was_meant(world):
    world.register(f"{SIX}, name: early")
    for change in (
        schedules.pause_schedule,
        schedules.resume_schedule,
        schedules.delete_schedule,
    ):
        with pytest.raises(NotFoundError) as refused:
            change(world.manage, "erly")
        assert refused.value.hint == "did you mean 'early'?"
