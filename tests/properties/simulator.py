"""A seeded scheduler over the real engine: whatever may happen between two promises, happens.

One ``Simulation`` is one seed. It starts a few executions, lets processes handle events, run commands, sweep and die in an order drawn
from the seed, and spends a budget of faults: repeats, losses, reordering, zombies, crashes before and after every port call, a store
that is away. Then the world is calm, and everything has to come to its end.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.domain.events import Event, Start
from noetl.domain.state import TERMINAL
from noetl.ports.executions.execution_store import CreatedExecution
from tests.properties.chaos import Crash
from tests.properties.disturbances import disturb
from tests.properties.happening import Happening, label, names
from tests.properties.invariants import audit
from tests.properties.world import Process, World

MOST_MOVES = 60_000
MOST_PROCESSES = 3
MOST_TRIES = 200
"""How often a client repeats what is refused for now."""
REMEMBERED = 300
"""Events and commands that may come back."""
CALM_SECONDS = 10.0
PATIENCE = 60
"""How many times in a row the clock may be moved on without anything happening before the world counts as quiet."""


@dataclass
class Simulation:
    world: World
    rng: random.Random
    happenings: list[Happening]
    budget: int
    moves: int = 0
    trace: deque[str] = field(default_factory=lambda: deque(maxlen=400))
    events: list[Event] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    at_hand: list[list[Event]] = field(default_factory=list)
    """Batches in the middle of being handled, the innermost last."""
    keeper: Callable[[], None] | None = None
    """Retention, if it runs meanwhile: one call of it."""
    busy: list[str] = field(default_factory=list)
    """Owners of processes in the middle of a move, the innermost last."""
    calm: bool = False
    refused: list[str] = field(default_factory=list)
    """What services did not accept."""

    def __post_init__(self) -> None:
        self.world.spend = self.spend
        self.world.meanwhile = self.meanwhile
        self.world.seen = self.remember

    # --- the run ---

    def run(self) -> None:
        """Chaos until its budget is spent, then calm until nothing is left to do."""
        while len(self.world.processes) < self.world.setting.processes:
            self.world.spawn()
        while self.budget > 0 or self.happenings:
            self.tick()
            (self.fault if self.budget > 0 and self.rng.random() < 0.25 else self.work)()
            if self.rng.random() < 0.02:
                audit(self.world)
        self.settle()

    def some_moves(self, most: int) -> None:
        """Play so many moves of chaos, and stop in the middle of the work."""
        while len(self.world.processes) < self.world.setting.processes:
            self.world.spawn()
        for _ in range(most):
            self.tick()
            (self.fault if self.budget > 0 and self.rng.random() < 0.25 else self.work)()

    def anybody(self) -> Process:
        return self.rng.choice(self.world.processes or [self.world.spawn()])

    def tick(self) -> None:
        self.moves += 1
        if self.moves > MOST_MOVES:
            raise AssertionError(f"no end after {MOST_MOVES} moves")
        if len(self.world.processes) < self.world.setting.processes and self.rng.random() < 0.2:
            self.newcomer()
        due = [happening for happening in self.happenings if happening.after <= self.moves]
        if due and self.rng.random() < 0.5:
            able = next(filter(self.may_ask, due), None)
            if able is not None:
                self.ask(able)

    def settle(self) -> None:
        """No more faults: leases run out, whoever is alive adopts what is left."""
        self.note("calm")
        self.calm = True
        self.world.hasty = 0.0
        for process in list(self.world.processes):
            process.faults.doom, process.faults.away = 0, 0
            if process.confused or (not process.connected and self.rng.random() < 0.5):
                self.world.bury(process)
            process.connected = True
        self.anybody()
        quiet = 0
        while quiet < PATIENCE:
            self.tick()
            self.world.outside.answer_all()
            self.anybody()
            for process in self.world.processes:
                process.sweep()
            quiet = 0 if self.work_off() else quiet + 1
            if self.nothing_left():
                break
            self.world.clock.pass_by(CALM_SECONDS)
        audit(self.world)
        self.calm = False

    def nothing_left(self) -> bool:
        """Whether everything is over: also what has not begun, of which only a start in the outbox is there."""
        if any(not process.idle for process in self.world.processes):
            return False
        everyone = self.world.store.executions(limit=100_000)
        if any(info.status not in TERMINAL for info in everyone):
            return False
        evidence = self.world.place.evidence()
        return not (evidence.commands or evidence.outbox or evidence.timers)

    def work_off(self) -> bool:
        did = False
        for process in list(self.world.processes):
            process.wake()
            while not process.faults.dead and (process.driver.events or process.driver.ready):
                did = True
                self.tick()
                self.move(process)
        return did

    # --- ordinary moves ---

    def work(self) -> None:
        if self.keeper is not None and self.rng.random() < 0.15:
            self.keeper()
            return
        process = self.anybody()
        chance = self.rng.random()
        if chance < 0.1:
            self.attempt(process, "sweeps", lambda: process.sweep(self.rng.choice((1, 1, 2, 5, 1000))))
        elif chance < 0.2:
            self.pass_time(self.rng.choice((0.1, 1.0, 5.0)))
        elif chance < 0.25 and self.world.outside.tokens:
            self.note("somebody outside answers")
            self.world.outside.answer_any(self.rng)
        elif process.driver.events or process.driver.ready:
            self.move(process)
        elif process.driver.delayed:
            self.pass_time(self.rng.choice((1.0, 20.0)))

    def pass_time(self, seconds: float) -> None:
        self.world.clock.pass_by(seconds)
        for process in self.world.processes:
            process.wake()

    def move(self, process: Process) -> None:
        """Handle some events in some order, or run one command."""
        driver = process.driver
        eager = self.world.setting.eager
        if driver.events and (not driver.ready or self.rng.random() < eager):
            self.rng.shuffle(driver.events)
            size = self.rng.choice(
                (1, 1, 2, 4, len(driver.events)) if eager >= 0.5 else (len(driver.events),)
            )
            batch, driver.events = driver.events[:size], driver.events[size:]
            self.attempt(process, f"handles {names(batch)}", lambda: self.handle(process, batch))
        elif driver.ready:
            command = driver.ready.pop(self.rng.randrange(len(driver.ready)))
            self.attempt(process, f"runs {label(command)}", lambda: self.execute(process, command))

    def handle_first(self, process: Process) -> None:
        batch, process.driver.events = process.driver.events[:4], process.driver.events[4:]
        if batch:
            self.attempt(process, f"handles {names(batch)}", lambda: self.handle(process, batch))

    def handle(self, process: Process, batch: list[Event]) -> None:
        known = len(process.driver.ready)
        for event in batch:
            self.remember(event)
        self.at_hand.append(batch)
        try:
            process.handle(batch)
        except InfrastructureError:
            process.driver.events += batch
            raise
        finally:
            self.at_hand.pop()
        for command in process.driver.ready[known:]:
            self.commands.append(command)
        if any(event is back for event in batch for back in process.driver.events):
            # It came before another message of its command: whoever delivers it waits a moment before the next try.
            self.pass_time(1.0)

    def execute(self, process: Process, command: Command) -> None:
        self.commands.append(command)
        del self.commands[:-REMEMBERED]
        try:
            driver = process.driver
            if not command.delay or driver.is_open(command) or driver.is_left_behind(command):
                process.driver.execute(command)
        except InfrastructureError:
            process.driver.ready.append(command)
            raise

    def attempt(self, process: Process, what: str, move: Callable[[], None]) -> None:
        """A move of one process, which may be its last."""
        self.note(f"{process.owner} {what}")
        self.busy.append(process.owner)
        try:
            move()
        except Crash as crash:
            assert crash.owner == process.owner
            self.note(str(crash))
            self.world.bury(process)
        except InfrastructureError as away:
            process.doubtful = True
            self.note(f"{process.owner} finds that {away}")
        finally:
            self.busy.pop()

    def meanwhile(self, owner: str, call: str) -> None:
        """Between two port calls of a process the others go on, perhaps with the very events it is about to apply."""
        if self.calm or len(self.busy) > 2 or self.rng.random() > self.world.setting.contention:
            return
        if self.keeper is not None and self.rng.random() < 0.3:
            self.note(f"  between the calls of {owner}, after {call}:")
            self.keeper()
            return
        others = [process for process in self.world.processes if process.owner not in self.busy]
        if others:
            process = self.rng.choice(others)
            self.note(f"  between the calls of {owner}, after {call}:")
            if self.rng.random() < 0.5:
                process.driver.events = self.some(self.events[-4:]) + process.driver.events
                self.handle_first(process)
            for _ in range(self.rng.randint(1, 4)):
                self.go_on(process)

    def go_on(self, process: Process) -> None:
        """Whatever this process can do now: it dies, it finds work, or it does some."""
        if process not in self.world.processes:
            return
        if process.driver.events or process.driver.ready:
            self.move(process)
        else:
            self.attempt(process, "sweeps", lambda: process.sweep(2))

    def spend(self) -> None:
        """A call takes its time."""
        if self.rng.random() < 0.3:
            self.world.clock.pass_by(self.rng.choice((0.01, 0.3, 1.2)))

    # --- clients ---

    def may_ask(self, happening: Happening) -> bool:
        """Tell whether the execution that ``happening`` is about has begun.

        One that waits for a slot keeps its own requests back, and no others: the holder of that slot may be paused until it is resumed.
        """
        event = happening.event
        if event is None or isinstance(event, Start):
            return True
        known = self.world.store.info(event.execution_id)
        return event.execution_id in self.world.leaving or (known is not None and known.version > 0)

    def ask(self, happening: Happening) -> None:
        if happening.door is not None:
            process = self.anybody()
            self.attempt(process, f"is asked to {happening.what}", lambda: self.through(process, happening))
            return
        event = happening.event
        assert event is not None
        process = self.anybody()
        asked = (
            self.start_by_outbox if isinstance(event, Start) and self.rng.random() < 0.3 else self.hand_over
        )
        self.attempt(process, f"is asked for {names([event])}", lambda: asked(process, happening))

    def through(self, process: Process, happening: Happening) -> None:
        """Ask a service; what it refuses is asked for again only where the refusal says so."""
        assert happening.door is not None
        try:
            events = happening.door(process)
        except InfrastructureError:
            raise
        except NoetlError as refused:
            happening.tries += 1
            self.note(f"refused: {refused}")
            self.refused.append(f"{happening.what}: {refused}")
            if not refused.retryable or happening.tries > MOST_TRIES:
                self.happenings.remove(happening)
            return
        self.happenings.remove(happening)
        process.driver.events += events

    def hand_over(self, process: Process, happening: Happening) -> None:
        assert happening.event is not None
        self.at_hand.append([happening.event])
        try:
            process.driver.handle([happening.event])
        finally:
            self.at_hand.pop()
        self.happenings.remove(happening)

    def start_by_outbox(self, process: Process, happening: Happening) -> None:
        event = happening.event
        assert isinstance(event, Start)
        program = self.world.programs(event.program)
        self.at_hand.append([event])
        try:
            process.driver.deps.store.create(event, CreatedExecution(program.path, program.name), None)
        finally:
            self.at_hand.pop()
        self.happenings.remove(happening)

    # --- faults ---

    def fault(self) -> None:
        self.budget -= 1
        disturb(self)

    def some(self, held: list[Any]) -> list[Any]:
        return [one for one in held if self.rng.random() < 0.5]

    def newcomer(self) -> None:
        if len(self.world.processes) < MOST_PROCESSES:
            self.note(f"{self.world.spawn().owner} joins")

    # --- memory ---

    def remember(self, event: Event) -> None:
        """What was reported may come again."""
        self.events.append(event)
        del self.events[:-REMEMBERED]

    def note(self, line: str) -> None:
        self.trace.append(f"{self.moves:5} {'  ' * len(self.busy)}{line}")
