"""What clients are shown of any execution at any moment: lists, status, events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from noetl.domain import codec
from noetl.ports.executions.execution_store import ExecutionInfo
from noetl.services.history.history_pages import history
from noetl.services.queries.analyze import AnalyzeDeps
from noetl.services.queries.read_execution import describe, list_executions
from tests.conformance.explained import check_explained
from tests.properties.laws import law

if TYPE_CHECKING:
    from tests.properties.world import World

MOST = 40
"""Executions that are looked at one by one in an audit; all are listed."""
SHARE = 6
"""One in so many executions is analyzed in an audit, others in the next ones."""


@law("readers-show-every-row", "always")
def check_readers(world: World, infos: Iterable[ExecutionInfo]) -> None:
    """Lists, status and events can show every execution at any moment."""
    now = world.clock.epoch()
    infos = list(infos)
    listed = list_executions(world.store, limit=100_000, now=now)
    assert {int(one.execution_id) for one in listed} == {info.execution_id for info in infos}
    codec.encode(listed)
    for info in infos[:MOST]:
        codec.encode(describe(world.store, world.programs, info.execution_id, now=now).to_dict())
        codec.encode(list(history(world.store, info.execution_id)))


@law("analyze-names-a-cause", "always")
def check_analyze(world: World, infos: Iterable[ExecutionInfo]) -> None:
    """Analyze names a cause for each execution that has not completed, and none that is not there."""
    deps = AnalyzeDeps(world.store, world.place.inspection, world.programs, world.clock.epoch)
    world.audits += 1
    for info in list(infos)[world.audits % SHARE :: SHARE][:MOST]:
        check_explained(info, deps)
