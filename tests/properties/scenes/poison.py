"""What the engine, or a worker, always fails on: events that it cannot handle, and tasks that kill the process that runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec

from noetl.domain.commands import Command
from noetl.domain.events import CommandDone, ContextPatched, ItemsDone, Start
from noetl.domain.state import TERMINAL, decode_state
from noetl.domain.workers.lost_owners import MOST
from noetl.dsl.program import Program
from noetl.ports.executions.execution_store import CreatedExecution
from noetl.runtime.programs import Programs
from tests.properties.accounts import family
from tests.properties.laws import law

if TYPE_CHECKING:
    from tests.properties.simulator import Simulation
    from tests.properties.world import Process, World

UNREADABLE = "unreadable"
"""The name of a program of which only a part is there."""
Place = Literal["start", "middle", "end"]
"""Where a task kills its process: before it does anything, after its first call, or after its last report."""
PLACES: tuple[Place, ...] = ("start", "middle", "end")
MOVES = 40
"""How many moves are waited for the next report of a worker."""
FORMS = ("patch", "start", "outcome", "deadly", "deadly")
"""``patch``, ``start``, ``outcome``: an event on which the engine fails whenever it handles it: a client's, the first one of an execution, and
the report of a worker, which may be a part of a chunk. ``deadly``: a task."""


class PartlyReadable(Programs):
    """Programs of a process, one of which cannot be read."""

    def __call__(self, digest: str) -> Program:
        if digest == UNREADABLE:
            raise ValueError("the program ends in the middle")
        return super().__call__(digest)


@dataclass(slots=True)
class Deadly:
    """Tasks that kill whoever runs them, by their command, and how many each turn of one has killed."""

    places: dict[tuple[int, str], Place] = field(default_factory=dict)
    deaths: Counter[tuple[int, str, int]] = field(default_factory=Counter)

    def place(self, command: Command) -> Place | None:
        return self.places.get((command.execution_id, command.command_id))

    @law("the-dead-are-counted-once", "call")
    def given_out(self, command: Command) -> None:
        """A command is said to have killed as many processes as died of this turn of it, and no more."""
        died = self.deaths[command.execution_id, command.command_id, command.turn]
        assert command.lost <= died, f"{command.lost} are said to have died of {command}, and {died} did"

    def died(self, command: Command) -> None:
        self.deaths[command.execution_id, command.command_id, command.turn] += 1


def poison(simulation: Simulation, root: int) -> bool:
    """Poison members of a family. True when some of it could do harm: some end of the family may differ then."""
    rng, world = simulation.rng, simulation.world
    struck: set[int] = set()
    for number in range(rng.choice((1, 1, 2, 3))):
        infos = world.store.executions(limit=100_000)
        if not any(info.execution_id == root for info in infos):
            break
        members = {info.execution_id for info in family(infos, root)}
        found = _poisoned(simulation, rng.choice(FORMS), members, number)
        struck |= set() if found is None else {found}
        simulation.some_moves(rng.randint(0, 60))
    simulation.run()
    check_poison(world, struck)
    return bool(struck)


def _poisoned(simulation: Simulation, form: str, members: Collection[int], number: int) -> int | None:
    """Return the execution that is struck; None when there is nothing that could be poisoned so."""
    rng, world, process = simulation.rng, simulation.world, simulation.anybody()
    if form == "deadly":
        ready = [one for process in world.processes for one in process.driver.ready]
        able = [one for one in ready or simulation.commands if one.execution_id in members]
        if not able:
            return None
        command, place = rng.choice(able), rng.choice(PLACES)
        world.deadly.places[command.execution_id, command.command_id] = place
        simulation.note(f"whoever runs {command.command_id} of {command.execution_id} dies at its {place}")
        return command.execution_id
    if form == "outcome":
        able = _reports(world, members)
        for _ in range(MOVES):
            if able:
                break
            simulation.some_moves(1)
            able = _reports(world, members)
        if not able:
            return None
        process, place_ = rng.choice(able)
        broken = msgspec.structs.replace(process.driver.events[place_], program=UNREADABLE)
        process.driver.events[place_] = broken
        simulation.note(f"{broken.event_id} of {broken.execution_id} is broken at {process.owner}")
        return broken.execution_id
    if form == "start":
        picked = max(info.execution_id for info in world.store.executions(limit=100_000)) + 1_000_000 + number
        begin = Start(picked, "start", UNREADABLE, f"poison/{number}", principal="user:eve")
        created = CreatedExecution(begin.path, "poison")
        if not world.store.create(begin, created, None).fresh:
            return None
        process.driver.events.append(begin)
        simulation.note(f"{picked} cannot begin, as {process.owner} finds")
        return picked
    picked = rng.choice(sorted(members))
    event = ContextPatched(picked, f"poison:{number}", UNREADABLE, [], principal="user:eve")
    process.driver.events.insert(rng.randint(0, len(process.driver.events)), event)
    simulation.note(f"poison for {picked} comes to {process.owner}")
    return picked


def _reports(world: World, members: Collection[int]) -> list[tuple[Process, int]]:
    """Find reports of workers that a process has not handled yet: who has each, and its place."""
    return [
        (process, place)
        for process in world.processes
        for place, event in enumerate(process.driver.events)
        if isinstance(event, (CommandDone, ItemsDone)) and event.execution_id in members
    ]


@law("poison-harms-its-execution-alone", "end")
def check_poison(world: World, struck: Collection[int]) -> None:
    """An event that always breaks the engine is given up, and so is a task that always kills its process; each fails its own execution alone."""
    for info in world.store.executions(limit=100_000):
        if info.status in TERMINAL and info.version:
            error = decode_state(info.state).error
            own = error is not None and error.code in ("engine_error", "worker_lost")
            assert not own or info.execution_id in struck or _above(world, info.execution_id, struck), (
                f"{info.path} failed with {error}, and nothing of its own was poisoned"
            )
    for process in world.processes:
        left = [event for event in process.driver.events if event.program == UNREADABLE]
        assert not left, f"{process.owner} still has {left}"


def is_given_up(command: Command) -> bool:
    """Whether too many have died of it for another try."""
    return command.lost >= MOST


def _above(world: World, execution_id: int, struck: Collection[int]) -> bool:
    """Whether one of ``struck`` is below: its failure may be told to those above it."""
    members = family(world.store.executions(limit=100_000), execution_id)
    return any(info.execution_id in struck for info in members)
