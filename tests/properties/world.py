"""Durable things (store, results, programs), time, and the processes that come and go over them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from noetl.adapters.memory import MemoryCatalog, MemoryExecutionStore, MemoryResultStore
from noetl.domain.commands import Command
from noetl.domain.events import Event
from noetl.domain.state import decode_state
from noetl.dsl.program import Program
from noetl.engine.view import Limits
from noetl.ports.execution_store import Change, Committed, ItemBatch, ItemsCommitted, Poll
from noetl.runtime.programs import Programs
from noetl.services.callback_keys import callback_key
from noetl.services.engine_deps import EngineDeps
from noetl.services.hydration import make_hydrate
from noetl.services.recent import Recent
from noetl.services.run_command import run_command
from noetl.services.worker_deps import WorkerDeps
from noetl.testing.callbacks import RING
from noetl.testing.driver import Driver, VirtualClock
from noetl.testing.memory import NoCredentials
from tests.properties.chaos import Faults, FaultyPort
from tests.properties.outside import Outside
from tests.properties.tools import PureTools

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


@dataclass(slots=True)
class BeatingClock(VirtualClock):
    """Time passes in steps short enough for every living process to keep its lease."""

    beat: Callable[[], None] = lambda: None

    def pass_by(self, seconds: float) -> None:
        while seconds > 0:
            step = min(seconds, BEAT)
            self.seconds += step
            seconds -= step
            self.beat()


class WatchedStore(MemoryExecutionStore):
    """Sees to it that attempts go up with every delivery (what waited for a slot is delivered for the first time), and that only the
    last one's outcome is ever applied."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.attempts: dict[tuple[int, str], int] = {}

    def claim(self, owner: str, limit: int) -> Sequence[Command]:
        with self.tables() as tables:
            waited = {key for key, uses in tables.uses.items() if any(use.queued for use in uses)}
        found = super().claim(owner, limit)
        for command in found:
            key = (command.execution_id, command.command_id)
            assert command.attempt > self.attempts.get(key, 0 if key in waited else 1), (
                f"{key} was claimed twice as attempt {command.attempt}"
            )
            self.attempts[key] = command.attempt
        return found

    def ask_again(self, polls: Sequence[Poll], owner: str | None = None) -> Sequence[Command]:
        found = super().ask_again(polls, owner)
        for command in found:
            self.attempts[command.execution_id, command.command_id] = command.attempt
        return found

    def commit(self, changes: Sequence[Change], owner: str | None = None) -> Committed:
        committed = super().commit(changes, owner)
        for change in changes:
            for command_id, attempt, _ in change.close:
                self._check(change.execution_id, command_id, attempt)
        return committed

    def commit_items(
        self, batches: Sequence[ItemBatch], owner: str | None = None
    ) -> tuple[Sequence[ItemsCommitted], Committed]:
        answers, committed = super().commit_items(batches, owner)
        for batch, answer in zip(batches, answers, strict=True):
            if answer.counted:
                self._check(batch.event.execution_id, batch.event.command_id, batch.event.attempt)
        return answers, committed

    def _check(self, execution_id: int, command_id: str, attempt: int) -> None:
        last = self.attempts.get((execution_id, command_id), 1)
        assert attempt == last, (
            f"the outcome of attempt {attempt} of {command_id} was applied after attempt {last} was given out"
        )


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


@dataclass
class World:
    """``now`` and lives of processes are all that changes besides the store."""

    programs: Programs
    setting: Setting = Setting()
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    processes: list[Process] = field(default_factory=list)
    born: int = 0
    spend: Callable[[], None] = lambda: None
    meanwhile: Callable[[str, str], None] = lambda owner, call: None
    seen: Callable[[Event], None] = lambda event: None
    hasty: float = 0.0
    """How often a worker finds its time short."""

    def __post_init__(self) -> None:
        self.clock = BeatingClock(beat=self.beat)
        self.results = MemoryResultStore()
        self.store = WatchedStore(self.clock.epoch)
        self.outside = Outside(self)
        self.tools = PureTools(lambda: self.spend(), self.outside.sent)

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
        self.faults = Faults(owner, world.rng, world.meanwhile)
        store, results = FaultyPort(world.store, self.faults), FaultyPort(world.results, self.faults)
        setting = world.setting
        deps = EngineDeps(
            store=store,
            results=results,
            programs=world.programs,
            resolve=world.programs.resolve,
            hydrate=make_hydrate(results),
            owner=None if setting.queues else owner,
            limits=Limits(inline_bytes=setting.inline_bytes, tier="memory", window=setting.window),
            workers=lambda pool: setting.workers,
            recent=Recent(world.clock.now) if setting.remembers else None,
        )
        self.worker = WorkerDeps(
            programs=world.programs,
            registry=world.tools,
            results=results,
            credentials=NoCredentials(),
            inline_bytes=setting.inline_bytes,
            clock=world.clock.now,
            now=world.clock.epoch,
            chance=world.rng.random,
            callback_key=lambda command: callback_key(command, world.programs, RING),
            deadline=self._deadline,
            longest=1e6 if setting.bounded else math.inf,
            revoked=lambda execution_id, run: (
                execution_id in self.driver.ended and world.gone(execution_id, run)
            ),
            log=_defect,
        )
        self.driver = Driver(deps, self._run, world.clock)
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
        driver.events += store.undelivered(self.owner, limit)
        driver.events += store.due_timers(self.owner, limit)[0]

    def handle(self, batch: Sequence[Event]) -> None:
        """What comes back unhandled is handled again when time has passed."""
        driver = self.driver
        driver.handle(batch)
        self.early += [event for event in driver.events if any(event is one for one in batch)]
        driver.events = [event for event in driver.events if not any(event is one for one in batch)]

    def wake(self) -> None:
        """Delays that are over."""
        driver = self.driver
        driver.events += self.early
        self.early = []
        now = self.world.clock.now()
        due = sorted(entry for entry in driver.delayed if entry[0] <= now + 1e-9)
        driver.delayed[:] = sorted(entry for entry in driver.delayed if entry[0] > now + 1e-9)
        driver.ready += [entry[2] for entry in due]

    def _run(self, command: Command, emit: Callable[[Event], None]) -> None:
        def report(event: Event) -> None:
            if not self.faults.dead:
                self.world.seen(event)
                emit(event)

        run_command(command, self.worker, report)

    def _deadline(self) -> float:
        return 0.0 if self.world.rng.random() < self.world.hasty else float("inf")


def _defect(line: str) -> None:
    if line.startswith("defect"):
        raise AssertionError(line)
