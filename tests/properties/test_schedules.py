"""Schedules under processes whose clocks differ and jump, and that register, pause and fire at the same time.

Laws: a moment is started at most once; after a tick no schedule is left with a next time in the past; and once the clocks agree, the next
moment is settled within two ticks of its time, by a start or with a reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from noetl.adapters.memory import MemoryCatalog, MemoryExecutionStore
from noetl.domain.automations.schedules import Timing, next_fire, parse_instant
from noetl.kinds.registry import default_registry
from noetl.ports.automations.schedule_store import ScheduleRow
from noetl.runtime.programs import Programs
from noetl.services.automations import schedules as manage_schedules
from noetl.services.automations.fire_schedule import Fired, fire_due, timing_of
from noetl.services.automations.register_schedules import put
from noetl.services.automations.schedules import ScheduleDeps
from noetl.services.executions.start_playbook import StartDeps
from tests.doubles.schedule_store import MemoryScheduleStore

NAME = "s"
PLAYBOOK = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: s\n  path: s\nworkflow:\n  - step: start\n"
)
MOST_SKEW = 5400
BEGIN = parse_instant("2026-03-28T23:40:00Z")
"""Shortly before Berlin leaves out an hour."""
RHYTHMS = (
    Timing(cron="*/10 * * * *"),
    Timing(cron="30 2 * * *", timezone="Europe/Berlin"),
    Timing(cron="*/20 * * * *", timezone="Australia/Lord_Howe"),
    Timing(rate="7 minutes"),
    Timing(rate="1 hour", timezone="Asia/Kathmandu"),
)


class Table(MemoryScheduleStore):
    """Lets another process act between the read and the write of one that registers."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def put(self, row: ScheduleRow) -> bool:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return super().put(row)


@dataclass
class World:
    """Two processes over one store. ``skew``: seconds by which the clock of each is wrong."""

    now: float = BEGIN
    skew: list[float] = field(default_factory=lambda: [0.0, 0.0])
    started: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryExecutionStore(lambda: self.now)
        catalog = MemoryCatalog()
        programs = Programs(catalog, default_registry())
        programs.register(PLAYBOOK, source_name="s.yaml")
        self.table, bits = Table(), itertools.count()

        def start(process: int) -> StartDeps:
            return StartDeps(
                self.store, catalog, programs, "me", lambda: self.clock(process), lambda: next(bits)
            )

        self.deps = [start(0), start(1)]
        self.manage = [
            ScheduleDeps(self.table, None, catalog, programs, lambda: self.clock(0)),
            ScheduleDeps(self.table, None, catalog, programs, lambda: self.clock(1)),
        ]

    def clock(self, process: int) -> float:
        return self.now + self.skew[process]

    @property
    def row(self) -> ScheduleRow:
        found = self.table.get(NAME)
        assert found is not None
        return found

    def register(self, process: int, row: ScheduleRow) -> None:
        put(row, store=self.table, schedules=None, now=self.clock(process))

    def tick(self, process: int) -> list[Fired]:
        fired = list(fire_due(self.table, self.deps[process]))
        self.started += [one.at for one in fired if one.event is not None]
        assert len(set(self.started)) == len(self.started), "a moment started twice"
        row = self.row
        if row.active and row.next_at is not None:
            assert row.next_at > self.clock(process), (
                "it is stuck: its next time is over, and a tick did nothing"
            )
        return fired

    def end_all(self) -> None:
        for entry in self.store._tables.executions.values():
            entry.status = "completed"


def schedules() -> st.SearchStrategy[ScheduleRow]:
    return st.builds(
        lambda rhythm, catch_up, most, overlap, enabled: ScheduleRow(
            NAME,
            "s",
            0.0,
            cron=rhythm.cron,
            rate=rhythm.rate,
            timezone=rhythm.timezone,
            catch_up=catch_up,
            catch_up_max=most,
            overlap=overlap,
            enabled=enabled,
        ),
        st.sampled_from(RHYTHMS),
        st.sampled_from(["once", "all", "none"]),
        st.sampled_from([1, 3, 100]),
        st.sampled_from(["allow", "skip", "cancel_previous"]),
        st.sampled_from([True, True, True, False]),
    )


PROCESS = st.integers(0, 1)
ACTIONS = st.one_of(
    st.tuples(st.just("tick"), PROCESS),
    st.tuples(st.just("wait"), st.sampled_from([1, 59, 60, 421, 600, 3600, 90_000])),
    st.tuples(st.just("skew"), PROCESS, st.sampled_from([0.0, 600.0, -600.0, 30.5, -30.5, 5400.0, -5400.0])),
    st.tuples(st.just("register"), PROCESS, schedules()),
    st.tuples(st.just("register_again"), PROCESS),
    st.tuples(st.just("register_while_another_fires"), PROCESS),
    st.tuples(st.just("pause"), PROCESS),
    st.tuples(st.just("resume"), PROCESS),
    st.tuples(st.just("end_all")),
)


def act(world: World, action: str, *told: object) -> None:
    process = told[0] if told and isinstance(told[0], int) else 0
    if action == "tick":
        world.tick(process)
    elif action == "wait":
        world.now += float(told[0])  # type: ignore[arg-type]
    elif action == "skew":
        world.skew[process] = float(told[1])  # type: ignore[arg-type]
    elif action == "register":
        world.register(process, told[1])  # type: ignore[arg-type]
    elif action.startswith("register_"):
        if action == "register_while_another_fires":
            world.table.meanwhile = lambda: world.tick(1 - process)
        world.register(process, replace(world.row, payload={"n": 2}))
    elif action == "pause":
        manage_schedules.pause_schedule(world.manage[process], NAME)
    elif action == "resume":
        manage_schedules.resume_schedule(world.manage[process], NAME)
    elif action == "end_all":
        world.end_all()


@settings(max_examples=300, deadline=None)
@given(schedules(), st.lists(ACTIONS, max_size=25))
def test_a_schedule_is_never_stuck_and_starts_a_moment_once(first, actions):
    world = World()
    world.register(0, first)
    for action in actions:
        act(world, *action)
    world.skew = [0.0, 0.0]
    world.register(0, replace(world.row, enabled=True))
    manage_schedules.resume_schedule(world.manage[0], NAME)
    world.end_all()
    for process in (0, 1):
        world.tick(process)
    world.end_all()
    row = world.row
    latest = next_fire(timing_of(row), max(world.now + MOST_SKEW, row.last_at or 0.0))
    assert row.next_at is not None and latest is not None and row.next_at <= latest, "it waits too long"
    world.now = row.next_at
    fired = [*world.tick(0), *world.tick(1)]
    if row.last_at is not None and row.next_at <= row.last_at:
        assert fired == [] and world.row.next_at == next_fire(timing_of(row), row.last_at), "it is settled"
        world.now = world.row.next_at
        fired = [*world.tick(0), *world.tick(1)]
    assert [one.at for one in fired] == [world.now] and fired[0].event is not None
