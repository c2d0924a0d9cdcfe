"""Words to any member of a family: pause, resume and cancel, with what is below it or without."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from noetl.domain.facts import facts as f
from noetl.domain.state import TERMINAL
from noetl.ports.executions.execution_store import ExecutionInfo
from noetl.services.orchestrator.build_commit import GIVEN_UP, PARENT_FAILED
from tests.properties.accounts import check_cancelled, check_paused, facts_of, family
from tests.properties.doors import Client, Word
from tests.properties.laws import law

if TYPE_CHECKING:
    from tests.properties.simulator import Simulation
    from tests.properties.world import World

OF_THE_PARENT = (GIVEN_UP, PARENT_FAILED)
"""How reasons begin for which an execution ends without a client's word."""


def steer_members(simulation: Simulation, client: Client) -> None:
    """Pause and cancel some members, hold the family to its laws at rest, and resume whoever is paused."""
    rng, world = simulation.rng, simulation.world
    for _ in range(rng.choice((1, 1, 2, 3))):
        live = [one for one in _members(world, client) if one.version and one.status not in TERMINAL]
        if not live:
            break
        what, below = rng.choice(("pause", "pause", "cancel")), rng.random() < 0.5
        picked = rng.choice(live).execution_id
        after = simulation.moves + rng.randint(0, 5)
        simulation.happenings.append(client.ask(what, after, picked, below=below))
        simulation.some_moves(rng.randint(0, 40))
    rest(simulation)
    check_words(world, client.said)
    for execution_id, what, below in client.said:
        if what == "cancel" and below and (execution_id, what, False) not in client.said:
            check_cancelled(world, execution_id)
        if client.said == [(execution_id, "pause", True)]:
            check_paused(world, execution_id)
    while paused := [one for one in _members(world, client) if one.version and one.status == "paused"]:
        picked = rng.choice(paused).execution_id
        simulation.happenings.append(client.ask("resume", 0, picked, below=rng.random() < 0.5))
        rest(simulation)


def rest(simulation: Simulation) -> None:
    """Go on until every word is accepted or refused, and nothing is left to do."""
    while simulation.happenings:
        simulation.some_moves(1)
    simulation.settle()


def _members(world: World, client: Client) -> list[ExecutionInfo]:
    infos = world.store.executions(limit=100_000)
    root = client.root.execution_id
    return family(infos, root) if any(one.execution_id == root for one in infos) else []


@law("words-reach-whom-they-are-for", "quiet")
def check_words(world: World, said: Collection[Word]) -> None:
    """An execution is paused or cancelled only by a word to it, or by one to an execution above it that is for those below as well.

    A child is cancelled too when its parent fails, or gives up the run that waits for it.
    """
    known = {info.execution_id: info for info in world.store.executions(limit=100_000)}
    for info in known.values():
        what = {"paused": "pause", "cancelled": "cancel"}.get(info.status)
        if what is None or (info.execution_id, what) in {(one, word) for one, word, _ in said}:
            continue
        above, parent = set[int](), info.parent_execution_id
        while parent is not None and parent in known:
            above.add(parent)
            parent = known[parent].parent_execution_id
        told = any(word == what and below and one in above for one, word, below in said)
        assert told or (what == "cancel" and _ended_by_parent(world, info.execution_id)), (
            f"{info.path} is {info.status}, and nobody said so: {sorted(said)}"
        )


def _ended_by_parent(world: World, execution_id: int) -> bool:
    reasons = [one.reason for one in facts_of(world.store, execution_id) if isinstance(one, f.Cancelled)]
    return any(reason.startswith(OF_THE_PARENT) for reason in reasons)
