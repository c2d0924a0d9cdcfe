"""Retention beside all that goes on: what it would remove now, and what is left when it has removed a family."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from noetl.domain.state import TERMINAL
from noetl.ports.executions.execution_store import ExecutionInfo
from tests.properties.evidence import Evidence
from tests.properties.laws import law

if TYPE_CHECKING:
    from tests.properties.world import World

MOST = 100_000


@law("what-lives-is-not-removed", "always")
def check_old(world: World, evidence: Evidence, infos: Iterable[ExecutionInfo]) -> None:
    """Retention names whole families alone, of which every member has ended, with no event, command or timer on its way to one."""
    known = {info.execution_id: info for info in infos}
    named = set(world.place.retention().old(world.clock.epoch() + 1.0, MOST))
    coming = {row.execution_id for row in (*evidence.outbox, *evidence.commands, *evidence.timers)}
    for info in known.values():
        if info.execution_id in named:
            assert info.status in TERMINAL, f"{info.path} is {info.status}, and would be removed"
            assert info.execution_id not in coming, f"{info.path} is told something, and would be removed"
        if info.parent_execution_id in known:
            together = (info.execution_id in named) == (info.parent_execution_id in named)
            assert together, f"{info.path} and its parent would not be removed together"


@law("what-is-removed-is-gone", "end")
def check_removed(world: World) -> None:
    """Retention removes every family that is over, and nothing of it stays."""
    retention, before = world.place.retention(), world.clock.epoch() + 1.0
    while claimed := retention.claim(before, MOST):
        retention.remove_events(claimed, MOST)
        removed = retention.remove(claimed)
        assert removed.executions, f"{claimed} cannot be removed"
    left, evidence = world.store.executions(limit=MOST), world.place.evidence()
    assert not left, f"{[info.path for info in left]} are over, and stay"
    rows = [*evidence.outbox, *evidence.commands, *evidence.timers, *evidence.uses]
    assert not rows, f"{rows} are left of nothing"
