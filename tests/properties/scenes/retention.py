"""Retention as a process of its own beside executions that run, end, are redriven and get late reports."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from noetl.domain.events import Event, Start
from noetl.domain.ids import LARGEST_ID, begun_at, first_id
from noetl.domain.state import TERMINAL, decode_state
from noetl.ports.executions.execution_store import ExecutionInfo
from noetl.services.executions.change_execution import ChangeRequest
from noetl.services.executions.redrive_execution import redrive
from tests.properties.accounts import family
from tests.properties.happening import Happening
from tests.properties.invariants import check_ended
from tests.properties.laws import law
from tests.properties.redriving import ENDLESS
from tests.properties.workloads import Seen, Workload, compare, observe

if TYPE_CHECKING:
    from tests.properties.simulator import Simulation
    from tests.properties.world import Process, World

MOST = 100_000
HISTORY = "noetl.event"


@dataclass
class Remover:
    """Claims trees that are over and removes them in pieces; it may forget what it claimed, as one that dies does.

    ``wanted``: what each root comes to when nothing disturbs it. ``claimed``: what it is removing now.
    """

    simulation: Simulation
    wanted: dict[int, tuple[Workload, Seen]]
    claimed: list[int] = field(default_factory=list)
    compared: int = 0

    @property
    def world(self) -> World:
        return self.simulation.world

    @property
    def rng(self) -> random.Random:
        return self.simulation.rng

    def move(self) -> None:
        """Make one call of retention, or ask for the redrive of something that is over."""
        move = self.rng.choice(
            (
                self.claim,
                self.claim,
                self.remove_events,
                self.remove,
                self.remove,
                self.die,
                self.redrive,
                self.divide,
            )
        )
        move()
        check_removals(self.world)

    def claim(self) -> None:
        """Claim what is over, unless somebody is about to begin it once more.

        Retention waits for an hour at least, which no delivery of a Start outlives: those that are still held are forgotten here.
        """
        world, limit = self.world, self.rng.choice((1, 2, 5, MOST))
        if any(isinstance(event, Start) for batch in self.simulation.at_hand for event in batch):
            return
        infos = world.store.executions(limit=MOST)
        roots = [one for one in infos if one.parent_execution_id is None]
        trees = {root.execution_id: family(infos, root.execution_id) for root in roots}
        retention, before = world.place.retention(), world.clock.epoch() + 1.0
        named = set(retention.old(before, limit))
        for root, members in trees.items():
            if named & {one.execution_id for one in members} and root not in world.leaving:
                self._check_over(root, members)
        claimed = list(retention.claim(before, limit))
        self.simulation.note(f"retention claims {[one % 10_000 for one in claimed]}")
        check_claimed(world, claimed, infos)
        for members in trees.values():
            ids = {one.execution_id for one in members}
            if not ids.isdisjoint(claimed):
                self._forget_starts(ids)
                world.leaving |= {one.execution_id: one.version for one in members}
        self.claimed = claimed

    def remove_events(self) -> None:
        """Remove a piece of the history of what is claimed."""
        count = self.world.place.retention().remove_events(self.claimed, self.rng.choice((1, 3, MOST)))
        self.simulation.note(f"retention removes {count} events")

    def remove(self) -> None:
        """Remove what is claimed, with all that belongs to it."""
        deferred = range(self.rng.choice((0, 0, LARGEST_ID)))
        removed = self.world.place.retention().remove(self.claimed, deferred)
        self.world.deferred |= {one for one in self.claimed if one in deferred}
        self.simulation.note(f"retention removes {removed}")
        self.claimed = []

    def die(self) -> None:
        """Forget what was claimed: the next claim has to find it."""
        self.claimed = []

    def divide(self) -> None:
        """Let history lie otherwise: what comes next in a partition of its own, what was there in fewer."""
        newest = max((one.execution_id for one in self.world.store.executions(limit=MOST)), default=0)
        came = self.world.place.divide(newest + self.rng.choice((0, 1)), self.rng.choice((0, 10, MOST)))
        self.simulation.note(f"history is divided: {came}")

    def redrive(self) -> None:
        """Let a client ask for the redrive of something, whether it has ended, is being removed, or is gone."""
        infos = [one for one in self.world.store.executions(limit=MOST) if one.path not in ENDLESS]
        over = [one.execution_id for one in infos if one.status in TERMINAL]
        known = over if self.rng.random() < 0.8 else [*self.world.leaving]
        if not known or self.redriven() > 3 or self.simulation.calm:
            return
        picked, number = self.rng.choice(known), self.simulation.moves

        def through(process: Process) -> Sequence[Event]:
            store = process.driver.deps.store
            return (
                redrive(
                    store,
                    self.world.programs,
                    picked,
                    ChangeRequest("user:ada", f"again {number}", process.owner),
                ),
            )

        happening = Happening(None, number, door=through, what=f"redrive {picked % 10_000}")
        self.simulation.happenings.append(happening)

    def finish(self) -> None:
        """Remove all that is over, as the next runs of retention do."""
        for _ in range(1000):
            self.claim()
            if not self.claimed:
                break
            self.world.place.retention().remove_events(self.claimed, MOST)
            self.remove()
            check_removals(self.world)
        else:
            raise AssertionError(f"retention finds {self.claimed} again and again")
        end = begun_at(LARGEST_ID)
        self.world.place.divide(first_id(end), 0)
        while self.world.place.retention().drop_history(0.0, end):
            pass
        self.world.deferred.clear()
        check_removals(self.world)

    def redriven(self) -> int:
        """Count the redrives that were accepted so far, of what is still there."""
        infos = self.world.store.executions(limit=MOST)
        return sum(decode_state(one.state).rounds for one in infos if one.version)

    def _check_over(self, root: int, members: Collection[ExecutionInfo]) -> None:
        """Hold a tree to the laws of the end before it goes: later nobody can."""
        world = self.world
        check_ended(world.store, members)
        if root in self.wanted and not any(decode_state(one.state).rounds for one in members if one.version):
            workload, wanted = self.wanted[root]
            compare(workload, wanted, observe(world.store, world.results, world.tools.calls, root))
            self.compared += 1

    def _forget_starts(self, members: set[int]) -> None:
        def late(event: Event | None) -> bool:
            return isinstance(event, Start) and event.execution_id in members

        simulation = self.simulation
        simulation.events[:] = [one for one in simulation.events if not late(one)]
        simulation.happenings[:] = [one for one in simulation.happenings if not late(one.event)]
        for process in self.world.processes:
            process.driver.events = [one for one in process.driver.events if not late(one)]
            process.early = [one for one in process.early if not late(one)]
        asked = self.world.place.watch.asked
        asked -= {one for one in asked if one[0].execution_id in members}


@law("only-what-is-over-is-removed", "call")
def check_claimed(world: World, claimed: Collection[int], infos: Collection[ExecutionInfo]) -> None:
    """Retention claims members of whole trees that are over alone, with no event, command or timer on its way to any member.

    ``infos``: every execution, as it was before the claim.
    """
    known = {info.execution_id: info for info in infos}
    evidence = world.place.evidence()
    coming = {row.execution_id for row in (*evidence.outbox, *evidence.commands, *evidence.timers)}
    for one in claimed:
        root = known[one]
        while root.parent_execution_id is not None:
            root = known[root.parent_execution_id]
        for member in family(infos, root.execution_id):
            assert member.status in TERMINAL, f"{member.path} is {member.status}, and its tree is removed"
            assert member.execution_id not in coming, (
                f"{member.path} is told something, and its tree is removed"
            )


@law("what-is-removed-stays-gone", "always")
def check_removals(world: World) -> None:
    """No process changes an execution that is being removed, a removed one never returns, and only history to be dropped later is left."""
    known = {info.execution_id: info for info in world.store.executions(limit=MOST)}
    world.removed |= world.leaving.keys() - known.keys()
    back = world.removed & known.keys()
    assert not back, f"{[known[one].path for one in back]} came back"
    for one in world.leaving.keys() & known.keys():
        info = known[one]
        assert info.status in TERMINAL and info.version == world.leaving[one], (
            f"{info.path} moves, and is being removed"
        )
    for info in known.values():
        parent = info.parent_execution_id
        assert parent is None or parent in known, f"{info.path} is the child of {parent}, which is gone"
    left = {*world.place.left_behind(world.removed - world.deferred)}
    left |= {table for table in world.place.left_behind(world.deferred & world.removed) if table != HISTORY}
    assert not left, f"{left} are left of what is gone"
    evidence = world.place.evidence()
    for row in (*evidence.outbox, *evidence.commands, *evidence.timers, *evidence.uses):
        assert row.execution_id not in world.leaving, f"{row} is for what is being removed, or is gone"
