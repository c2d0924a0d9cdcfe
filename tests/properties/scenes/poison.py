"""Events on which the engine fails whenever it handles them: their program cannot be read."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from noetl.domain.events import ContextPatched
from noetl.domain.state import TERMINAL, decode_state
from noetl.dsl.program import Program
from noetl.runtime.programs import Programs
from tests.properties.accounts import family
from tests.properties.laws import law

if TYPE_CHECKING:
    from tests.properties.simulator import Simulation
    from tests.properties.world import World

UNREADABLE = "unreadable"
"""The name of a program of which only a part is there."""


class PartlyReadable(Programs):
    """Programs of a process, one of which cannot be read."""

    def __call__(self, digest: str) -> Program:
        if digest == UNREADABLE:
            raise ValueError("the program ends in the middle")
        return super().__call__(digest)


def poison(simulation: Simulation, root: int) -> bool:
    """Deliver such events to members of a family. True when one of them could do harm: some end of the family may differ then."""
    rng, world = simulation.rng, simulation.world
    struck: set[int] = set()
    for number in range(rng.choice((1, 1, 2, 3))):
        infos = world.store.executions(limit=100_000)
        if not any(info.execution_id == root for info in infos):
            break
        picked = rng.choice(family(infos, root)).execution_id
        event = ContextPatched(picked, f"poison:{number}", UNREADABLE, [], principal="user:eve")
        process = simulation.anybody()
        process.driver.events.insert(rng.randint(0, len(process.driver.events)), event)
        simulation.note(f"poison for {picked} comes to {process.owner}")
        struck.add(picked)
        simulation.some_moves(rng.randint(0, 60))
    simulation.run()
    check_poison(world, struck)
    return bool(struck)


@law("poison-harms-its-execution-alone", "end")
def check_poison(world: World, struck: Collection[int]) -> None:
    """An event on which the engine always fails is given up within three tries, and fails its own execution, and no other."""
    for info in world.store.executions(limit=100_000):
        if info.status in TERMINAL and info.version:
            error = decode_state(info.state).error
            own = error is not None and error.code == "engine_error"
            assert not own or info.execution_id in struck or _above(world, info.execution_id, struck), (
                f"{info.path} failed with {error}, and no event of its own was broken"
            )
    for process in world.processes:
        left = [event for event in process.driver.events if event.program == UNREADABLE]
        assert not left, f"{process.owner} still has {left}"


def _above(world: World, execution_id: int, struck: Collection[int]) -> bool:
    """Whether one of ``struck`` is below: its failure may be told to those above it."""
    members = family(world.store.executions(limit=100_000), execution_id)
    return any(info.execution_id in struck for info in members)
