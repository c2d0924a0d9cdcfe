"""What clients redrive once everything is over: from failures, from steps, and from items of loops, whichever ones there are."""

from __future__ import annotations

import random
from collections.abc import Iterator

from noetl.domain.errors import ConflictError
from noetl.domain.events import Redrive
from noetl.domain.state import TERMINAL, decode_state
from noetl.ports.executions.execution_store import ExecutionInfo
from noetl.services.executions.change_execution import ChangeRequest
from noetl.services.executions.redrive_execution import plan
from noetl.services.history.last_step_runs import last_runs
from tests.properties.happening import Happening
from tests.properties.world import World

ENDLESS = frozenset({"properties/parked_child"})
"""It waits until it is cancelled."""
CALLED_OFF = frozenset({"properties/withdrawn", "properties/newest", "properties/undo"})
"""They start it, and another step of theirs calls it off: only with that step do they end."""
Lanes = dict[tuple[int, int, int], tuple[tuple[int, bytes], ...]]
"""By execution, run and round of a loop: what its items came to."""


def redrives(world: World, rng: random.Random, number: int) -> list[Happening]:
    """A redrive for some of the executions there are; children are redriven alone, too."""
    return [
        Happening(event, rng.randint(0, 100))
        for info in world.store.executions(limit=10_000)
        if info.status in TERMINAL and info.path not in ENDLESS and rng.random() < 0.7
        for event in _redrive(world, info, rng, number)
    ]


def _redrive(world: World, info: ExecutionInfo, rng: random.Random, number: int) -> Iterator[Redrive]:
    runs = last_runs(world.store, info.execution_id)
    loops = [name for name in runs.candidates() if "[" in name]
    choice = "" if info.path in CALLED_OFF else rng.choice(("", *(loops or [""]), *runs.args))
    asked = ChangeRequest("user:ada", f"redrive {info.execution_id} {number}", "client", "once more")
    try:
        yield plan(world.store, world.programs, info.execution_id, asked, step=choice)
    except ConflictError as refused:
        assert refused.code == "not_redrivable", refused
        assert not choice or "[" in choice, refused


def lanes(world: World) -> Lanes:
    """What the items of every loop that is over came to: no redrive may touch it."""
    found: Lanes = {}
    for info in world.store.executions(limit=10_000):
        if info.status not in TERMINAL:
            continue
        for loop in world.store.loop_progress(info.execution_id):
            rows = world.store.loop_items(info.execution_id, loop.run, loop.round, 0, 100_000)
            found[info.execution_id, loop.run, loop.round] = tuple((row.index, row.outcome) for row in rows)
    return found


def rounds(world: World) -> int:
    """How many redrives were carried out."""
    return sum(
        decode_state(info.state).rounds for info in world.store.executions(limit=10_000) if info.version
    )
