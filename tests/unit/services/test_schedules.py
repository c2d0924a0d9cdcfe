"""Registering, handling and firing schedules over stores in memory, with a clock that is set."""

from __future__ import annotations

import itertools

import pytest

from noetl.adapters.memory import MemoryCatalog, MemoryExecutionStore
from noetl.adapters.memory.schedule_store import MemoryScheduleStore
from noetl.adapters.memory.schedules import MemorySchedules
from noetl.domain.errors import ConflictError, InfrastructureError, InvalidInputError, NotFoundError
from noetl.domain.schedules import instant, parse_instant
from noetl.kinds.registry import default_registry
from noetl.ports.schedule_store import ScheduleRow
from noetl.runtime.programs import Programs
from noetl.services import manage_schedules
from noetl.services.fire_schedule import fire_due, fire_schedule
from noetl.services.manage_schedules import ScheduleDeps, ScheduleWish
from noetl.services.register_schedules import register_schedule
from noetl.services.start_playbook import StartDeps

MONDAY = parse_instant("2026-03-02T05:00:00Z")
SIX = "cron: 0 6 * * 1-5"
WORK = "workflow:\n  - step: start\n"


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

    def register(self, schedule: str = "", path: str = "etl/daily", extra: str = ""):
        block = f"  schedule: {{ {schedule} }}\n" if schedule else ""
        text = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: it\n  path: {path}\n{block}{extra}{WORK}"
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
    manage_schedules.pause_schedule(world.manage, "etl.daily")
    world.now += 1800
    world.register("rate: 1 hour, payload: { n: 2 }")
    assert world.row().anchor == first.anchor and world.row().paused
    assert not world.fires.get("etl.daily").enabled
    manage_schedules.resume_schedule(world.manage, "etl.daily")
    assert world.row().next_at == MONDAY + 3600
    world.register("rate: 2 hours")
    assert world.row().anchor == world.now and world.row().next_at == world.now + 7200


def test_a_moment_that_is_due_is_not_lost_by_registering(world):
    world.register("rate: 1 hour")
    world.now += 3700
    world.register("rate: 1 hour, payload: { n: 2 }")
    (fired,) = world.fire()
    assert fired.at == MONDAY + 3600 and fired.event.payload == {"n": 2}


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
    assert fired.event.payload == {"n": 1}
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
    manage_schedules.pause_schedule(world.manage, "etl.daily")
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


def test_a_schedule_by_hand(world):
    world.register(extra="input: { type: object, properties: { n: { type: integer } } }\n")
    wish = ScheduleWish("etl/daily", name="hourly", rate="1 hours", payload={"n": 1}, version=1)
    made = manage_schedules.put_schedule(world.manage, wish)
    row = made.row
    assert made.fresh and not manage_schedules.put_schedule(world.manage, wish).fresh
    assert (row.rate, row.declared, row.next_at) == ("1 hour", False, MONDAY + 3600)
    shown = manage_schedules.view(row)
    assert (shown.state, shown.next_at, shown.last_execution_id) == ("active", "2026-03-02T06:00:00Z", None)
    world.register()
    assert world.row("hourly"), "registering takes back only what a playbook declared"
    manage_schedules.delete_schedule(world.manage, "hourly")
    assert world.row("hourly") is None and world.fires.get("hourly") is None


@pytest.mark.parametrize(
    ("wish", "error", "code"),
    [
        (ScheduleWish("nowhere", rate="1 hour"), NotFoundError, "playbook_not_found"),
        (ScheduleWish("etl/daily", rate="1 hour", version=7), NotFoundError, "playbook_not_found"),
        (ScheduleWish("etl/daily"), InvalidInputError, "invalid_schedule"),
        (ScheduleWish("etl/daily", rate="1 hour", cron="0 0 * * *"), InvalidInputError, "invalid_schedule"),
        (ScheduleWish("etl/daily", cron="0 0 30 2 *"), InvalidInputError, "invalid_cron"),
        (ScheduleWish("etl/daily", rate="1 hour", timezone="Mars"), InvalidInputError, "invalid_timezone"),
        (ScheduleWish("etl/daily", rate="1 hour", name="a b"), InvalidInputError, "invalid_schedule_name"),
        (ScheduleWish("etl/daily", rate="1 hour", payload={"n": "x"}), InvalidInputError, "payload_invalid"),
        (ScheduleWish("etl/daily", rate="1 hour", name="early"), ConflictError, "schedule_declared"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(world, wish, error, code):
    world.register(
        f"{SIX}, name: early", extra="input: { type: object, properties: { n: { type: integer } } }\n"
    )
    with pytest.raises(error) as refused:
        manage_schedules.put_schedule(world.manage, wish)
    assert refused.value.code == code
    assert [row.name for row in world.table.entries(limit=9)] == ["early"]


def test_a_name_that_is_not_there_is_told_with_what_was_meant(world):
    world.register(f"{SIX}, name: early")
    for change in (
        manage_schedules.pause_schedule,
        manage_schedules.resume_schedule,
        manage_schedules.delete_schedule,
    ):
        with pytest.raises(NotFoundError) as refused:
            change(world.manage, "erly")
        assert refused.value.hint == "did you mean 'early'?"
