"""Completion of events from the item lane: a loop's summary, a sub-execution's depth.

The item lane reads no execution and folds nothing, so the main lane does both before it decides.
"""

from __future__ import annotations

import msgspec

from noetl.domain.events import LoopDone, MainEvent, Start
from noetl.services.history.execution_state import demand_state
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.orchestrator.summarize_loop import fold_loop


class Completion:
    """The completion of a batch's events, which reads each parent once for all its children."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps
        self._depths: dict[int, int] = {}

    def completed(self, event: MainEvent) -> MainEvent:
        """Return ``event`` with what the item lane left out. Raises InfrastructureError."""
        if isinstance(event, LoopDone):
            return fold_loop(event, self._deps)
        if isinstance(event, Start) and event.parent is not None and event.parent.round >= 0:
            return msgspec.structs.replace(event, depth=self._depth(event.parent.execution_id) + 1)
        return event

    def _depth(self, parent: int) -> int:
        if parent not in self._depths:
            info = self._deps.store.info(parent)
            self._depths[parent] = demand_state(info).depth if info is not None else 0
        return self._depths[parent]
