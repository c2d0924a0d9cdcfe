"""Durable things (store, results, programs), time, and the processes that come and go over them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from noetl.adapters.memory import MemoryCatalog, MemoryResultStore
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import CommandDone, Event
from noetl.domain.state import decode_state
from noetl.dsl.program import Program
from noetl.engine.scopes.slot_view import Limits
from noetl.ports.executions.execution_store import Change, Committed, ExecutionStore
from noetl.runtime.programs import Programs
from noetl.services.callbacks.callback_keys import callback_key
from noetl.services.orchestrator.engine_deps import BatchEffects, EngineDeps
from noetl.services.orchestrator.failed_events import TRIES, after_failure
from noetl.services.orchestrator.snapshot_cache import Recent
from noetl.services.results.hydration import make_hydrate
from noetl.services.worker.run_command import run_command
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.services.worker.worker_lost import answer_lost
from noetl.testing.callbacks import RING
from noetl.testing.driver import Driver, VirtualClock
from noetl.testing.memory import NoCredentials
from tests.properties.chaos import Crash, Faults, FaultyPort
from tests.properties.outside import Outside
from tests.properties.places import MemoryPlace, Place
from tests.properties.scenes.poison import UNREADABLE, Deadly, PartlyReadable, is_given_up
from tests.properties.tools import Call, PureTools

LEASE = 30.0
BEAT = 10.0
PLAYBOOKS = Path(__file__).parent / "playbooks"


def compile_all(extra: tuple[str, ...] = ()) -> Programs:
    """The playbooks of this folder, and ``extra`` texts."""
    programs = Programs(MemoryCatalog(), PureTools())
    for file in sorted(PLAYBOOKS.glob("*.yaml")):
        programs.register(file.read_text(), source_name=file.name)
    for text in extra:
        programs.register(text, source_name="random.yaml")
    return programs


def own_programs(shared: Programs, size: int) -> Programs:
    """What a process keeps of the programs there are."""
    return PartlyReadable(shared.catalog, PureTools(), size, shared.cache)


@dataclass(slots=True)
class BeatingClock(VirtualClock):
    """Time passes in steps short enough for every living process to keep its lease."""

    tick: Callable[[], None] = lambda: None
    beat: Callable[[], None] = lambda: None

    def pass_by(self, seconds: float) -> None:
        while seconds > 0:
            step = min(seconds, BEAT)
            self.seconds += step
            seconds -= step
            self.tick()
            self.beat()


@dataclass(frozen=True)
class Setting:
    """What a deployment chooses. ``queues``: commands go through the store to whoever claims them, as they do through queues."""

    inline_bytes: int = 32 * 1024
    window: int = 1000
    workers: int = 2
    queues: bool = False
    contention: float = 0.06
    """How often others get a turn between two port calls of a process."""
    remembers: bool = False
    """Whether processes go on from what they committed last, without reading it again."""
    bounded: bool = False
    """Calls are only begun with their whole time-out left, as in a function."""
    processes: int = 1
    """How many there are at first."""
    eager: float = 0.5
    """How often a process handles events while it has commands to run; one that seldom does handles many at once."""
    loops: int = 256
    """Loops that a process remembers (where the store is Postgres)."""
    recents: int = 1024
    """Executions that a process remembers, if it does."""
    programs: int = 256
    """Programs that a process keeps."""
    ahead: float = 0.0
    """How often a process that remembers runs a command before it is issued: all tools here answer what they are asked alone."""
    skew: float = 0.0
    """Seconds by which the clocks of processes differ at most, each from the store's."""


@dataclass
class World:
    """``now`` and lives of processes are all that changes besides the store."""

    programs: Programs
    setting: Setting = Setting()
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    processes: list[Process] = field(default_factory=list)
    born: int = 0
    audits: int = 0
    spend: Callable[[], None] = lambda: None
    meanwhile: Callable[[str, str], None] = lambda owner, call: None
    seen: Callable[[Event], None] = lambda event: None
    hasty: float = 0.0
    """How often a worker finds its time short."""
    ground: Callable[[Callable[[], float]], Place] = MemoryPlace
    """What keeps executions: given the clock."""
    deadly: Deadly = field(default_factory=Deadly)
    leaving: dict[int, int] = field(default_factory=dict)
    """Executions that retention has begun to remove, or has removed, with the version at which that began."""
    deferred: set[int] = field(default_factory=set)
    """Executions that retention has removed without their history."""
    removed: set[int] = field(default_factory=set)
    running: list[tuple[Process, list[Call] | None]] = field(default_factory=list)
    """Processes that run a command, the innermost last; of a run ahead with the calls that it makes."""

    def __post_init__(self) -> None:
        self.clock = BeatingClock(beat=self.beat)
        self.results = MemoryResultStore()
        self.place = self.ground(self.clock.epoch)
        self.clock.tick = self.place.tick
        self.store = self.place.store
        self.outside = Outside(self)
        self.tools = TriedTools(self)

    def called(self) -> None:
        """A tool was called, by whoever runs a command now."""
        self.spend()
        if self.running:
            self.running[-1][0].called()

    def beat(self) -> None:
        for process in self.processes:
            if process.connected:
                self.store.heartbeat(process.owner, LEASE)

    def spawn(self) -> Process:
        self.born += 1
        process = Process(self, f"p{self.born}")
        self.processes.append(process)
        return process

    def bury(self, process: Process) -> None:
        process.faults.dead = True
        self.processes.remove(process)

    def gone(self, execution_id: int, run: int) -> bool:
        """Whether nobody waits for a step run (any more)."""
        info = self.store.info(execution_id)
        return info is None or run not in decode_state(info.state).tokens

    def program(self, path: str) -> Program:
        return self.programs(self.programs.resolve(path, None))


class TriedTools(PureTools):
    """Tools whose calls within a run ahead count when the outcome of the run is written."""

    def __init__(self, world: World) -> None:
        super().__init__(world.called, world.outside.sent)
        self._world = world

    def keep(self, call: Call) -> None:
        trial = self._world.running[-1][1] if self._world.running else None
        (self.calls if trial is None else trial).append(call)


class CommitNotes:
    """A store that hands over each change when it has written it, whether or not its answer arrives."""

    def __init__(self, store: ExecutionStore, written: Callable[[Change], None]) -> None:
        self._store, self._written = store, written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, changes: Sequence[Change], owner: str | None = None) -> Committed:
        committed = self._store.commit(changes, owner)
        for change in changes:
            self._written(change)
        return committed


class Process:
    """An engine and its workers in one process, with what it holds in memory (``driver``).

    ``connected``: its heartbeats arrive. When they do not, it goes on all the same, as a paused machine does when it comes back.
    ``early``: events that have to wait for others of their command.
    ``confused``: it lost part of its memory, and may never be connected again.
    """

    def __init__(self, world: World, owner: str) -> None:
        self.world = world
        self.owner = owner
        self.connected = True
        self.confused = False
        self.early: list[Event] = []
        self.doubtful = False
        self.dies_of: Command | None = None
        """The command at hand, when the call of a tool kills."""
        self.trials: dict[tuple[int, str], list[Call]] = {}
        """(execution, event) of outcomes that are not written yet → the calls of those runs ahead."""
        self.faults = Faults(owner, world.rng, lambda who, call: world.meanwhile(who, call))
        setting = world.setting
        kept = world.place.of_process(setting.loops)
        store = FaultyPort(CommitNotes(kept, self._written), self.faults)
        results = FaultyPort(world.results, self.faults)
        programs = own_programs(world.programs, setting.programs)
        self.skew = setting.skew and world.rng.uniform(-setting.skew, setting.skew)
        deps = EngineDeps(
            store=store,
            results=results,
            programs=programs,
            resolve=programs.resolve,
            hydrate=make_hydrate(results),
            owner=None if setting.queues else owner,
            limits=Limits(inline_bytes=setting.inline_bytes, tier="memory", window=setting.window),
            workers=lambda pool: setting.workers,
            recent=Recent(lambda: world.clock.now() + self.skew, setting.recents)
            if setting.remembers
            else None,
        )
        self.worker = WorkerDeps(
            programs=programs,
            registry=world.tools,
            results=results,
            credentials=NoCredentials(),
            inline_bytes=setting.inline_bytes,
            clock=world.clock.now,
            now=lambda: world.clock.epoch() + self.skew,
            chance=world.rng.random,
            callback_key=lambda command: callback_key(command, programs, RING),
            deadline=self._deadline,
            longest=1e6 if setting.bounded else math.inf,
            revoked=lambda execution_id, run: (
                execution_id in self.driver.ended and world.gone(execution_id, run)
            ),
            log=_defect,
        )
        self.driver = Driver(deps, self._run, world.clock, ahead=self._run_ahead if setting.ahead else None)
        world.store.heartbeat(owner, LEASE)

    @property
    def idle(self) -> bool:
        driver = self.driver
        return not (driver.events or self.early or driver.ready or driver.delayed)

    def sweep(self, limit: int = 1000) -> None:
        """Adopt what belongs to nobody alive, as the keeper of a process does.

        After an answer of the store was lost (``doubtful``) the process may own what it has never heard of: it gives up its lease first.
        """
        store, driver = self.driver.deps.store, self.driver
        if self.doubtful:
            store.release(self.owner)
            store.heartbeat(self.owner, LEASE)
            self.doubtful = False
        for command in store.claim(self.owner, limit):
            driver.take(command)
        found = store.undelivered(self.owner, limit)  # others may take from the list of events meanwhile
        driver.events += found
        driver.events += store.due_timers(self.owner, limit)[0]

    def handle(self, batch: Sequence[Event]) -> None:
        """What comes back unhandled is handled again when time has passed; a batch that breaks the engine is handled one by one."""
        driver = self.driver
        self.trials.clear()
        try:
            driver.handle(batch)
        except InfrastructureError:
            raise
        except Exception:
            if not any(event.program == UNREADABLE for event in batch):
                raise
            for event in batch:
                self._handle_alone(event)
        self.early += [event for event in driver.events if any(event is one for one in batch)]
        driver.events = [event for event in driver.events if not any(event is one for one in batch)]

    def _handle_alone(self, event: Event) -> None:
        """Try an event as every runtime does, until its execution fails instead."""
        wait: float | None = None
        for tries in range(1, TRIES + 1):
            try:
                self.driver.handle([event])
                return
            except InfrastructureError:
                raise
            except Exception as error:
                if event.program != UNREADABLE:
                    raise
                handled = BatchEffects()
                wait = after_failure(event, error, tries, self.driver.deps, handled)
                self.driver.follow(handled)
        assert wait is None, f"{event} was set aside: its execution could not fail"

    def wake(self) -> None:
        """Delays that are over."""
        driver = self.driver
        driver.events += self.early
        self.early = []
        now = self.world.clock.now()
        due = sorted(entry for entry in driver.delayed if entry[0] <= now + 1e-9)
        driver.delayed[:] = sorted(entry for entry in driver.delayed if entry[0] > now + 1e-9)
        driver.ready += [entry[2] for entry in due]

    def _run(self, command: Command, emit: Callable[[Event], None], trial: list[Call] | None = None) -> None:
        """Run a command. ``trial``: takes the calls of a run ahead."""

        def report(event: Event) -> None:
            if not self.faults.dead:
                if trial is None:  # the outcome of a run ahead is sent nowhere, so nothing can repeat it
                    self.world.seen(event)
                emit(event)

        self.world.deadly.given_out(command)
        if is_given_up(command):
            for event in answer_lost(command, self.worker.programs, self.worker.results, "it kills", _defect):
                report(event)
            return
        place = self.world.deadly.place(command)
        if place == "start":
            self._die_of(command, place)
        self.dies_of = command if place == "middle" else None
        self.world.running.append((self, trial))
        try:
            run_command(command, self.worker, report)
        finally:
            self.world.running.pop()
            self.dies_of = None
        if place is not None:
            self._die_of(command, "end")

    def _run_ahead(self, command: Command) -> CommandDone | None:
        if (
            self.world.rng.random() >= self.world.setting.ahead
            or self.world.deadly.place(command) is not None
        ):
            return None
        found: list[Event] = []
        calls: list[Call] = []
        self._run(command, found.append, calls)
        done = found[0] if found and isinstance(found[0], CommandDone) else None
        if done is not None:
            self.trials[done.execution_id, done.event_id] = calls
        return done

    def _written(self, change: Change) -> None:
        """Count the calls of runs ahead whose outcomes a change holds."""
        for row in change.events:
            self.world.tools.calls += self.trials.pop((change.execution_id, row.event_id), ())

    def called(self) -> None:
        """A tool was called: the process may die of it."""
        if self.dies_of is not None:
            self._die_of(self.dies_of, "middle")

    def _die_of(self, command: Command, place: str) -> NoReturn:
        """End, as whoever starts next finds: what it held is free, and what it ran is counted."""
        self.faults.dead = True
        self.world.deadly.died(command)
        self.world.store.record_lost([(command.execution_id, command.command_id, command.turn)])
        self.world.store.release(self.owner)
        raise Crash(self.owner, f"of {command.command_id}, at its {place}")

    def _deadline(self) -> float:
        return 0.0 if self.world.rng.random() < self.world.hasty else float("inf")


def _defect(line: str) -> None:
    if line.startswith("defect"):
        raise AssertionError(line)
