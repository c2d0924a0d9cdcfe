"""What goes wrong in the simulator: repeats, losses, zombies, crashes, a store that is away, machines that are cut off or join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.properties.happening import label, names
from tests.properties.world import LEASE

if TYPE_CHECKING:
    from tests.properties.simulator import Simulation


def disturb(simulation: Simulation) -> None:
    """Do one thing that goes wrong, as the simulation's dice say."""
    often = [repeat, doom, doom]
    each = [
        repeat,
        zombie,
        lose,
        crash,
        doom,
        away,
        disconnect,
        reconnect,
    ]
    each += [late, newcomer, retire]
    simulation.rng.choice(often + each)(simulation)


def repeat(simulation: Simulation) -> None:
    """Events come again: soon, late, to another process, out of order."""
    process = simulation.anybody()
    again = simulation.rng.sample(
        simulation.events, min(len(simulation.events), simulation.rng.randint(1, 4))
    )
    process.driver.events += again
    simulation.note(f"again to {process.owner}: {names(again)}")


def zombie(simulation: Simulation) -> None:
    """Somebody runs a command that was given out before: twice at once, or long after another attempt took over."""
    if simulation.commands:
        process, command = simulation.anybody(), simulation.rng.choice(simulation.commands)
        simulation.attempt(process, f"runs again {label(command)}", lambda: process.driver.execute(command))


def lose(simulation: Simulation) -> None:
    """A process forgets part of what it holds, and soon dies of it: only then may anybody else take it over."""
    process = simulation.anybody()
    driver = process.driver
    driver.events = simulation.some(driver.events)
    driver.ready = simulation.some(driver.ready)
    driver.delayed = sorted(simulation.some(driver.delayed))
    process.connected, process.confused = False, True
    process.faults.doom, process.faults.after = simulation.rng.randint(1, 60), True
    simulation.note(f"{process.owner} loses its mind")


def crash(simulation: Simulation) -> None:
    process = simulation.anybody()
    simulation.note(f"{process.owner} is killed")
    simulation.world.bury(process)


def doom(simulation: Simulation) -> None:
    """It will die at one of its next port calls."""
    process = simulation.anybody()
    process.faults.doom = simulation.rng.randint(1, 8)
    process.faults.after = simulation.rng.random() < 0.5
    simulation.note(f"{process.owner} is doomed")


def away(simulation: Simulation) -> None:
    simulation.anybody().faults.away = simulation.rng.randint(1, 3)


def disconnect(simulation: Simulation) -> None:
    """A machine is paused, or cut off: its lease runs out while it goes on."""
    process = simulation.anybody()
    process.connected = False
    simulation.note(f"{process.owner} is cut off")


def reconnect(simulation: Simulation) -> None:
    for process in simulation.world.processes:
        if not process.connected and not process.confused:
            process.connected = True
            simulation.note(f"{process.owner} is back")


def late(simulation: Simulation) -> None:
    simulation.note("a long time passes")
    simulation.pass_time(simulation.rng.choice((LEASE, 2 * LEASE)))


def retire(simulation: Simulation) -> None:
    """A process ends in order, with work in its hands."""
    process = simulation.anybody()
    simulation.world.store.release(process.owner)
    simulation.world.bury(process)
    simulation.note(f"{process.owner} retires")


def newcomer(simulation: Simulation) -> None:
    simulation.newcomer()
