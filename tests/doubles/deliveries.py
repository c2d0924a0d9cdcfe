"""What queues in memory know about the messages of executions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from noetl.ports.command_tries import CommandTries
from noetl.ports.deliveries import DeadLetter
from noetl.ports.gauges import QueueGauge
from noetl.ports.results import ResultStore
from noetl.services.orchestrator.dead_letters import look, of_execution
from tests.doubles.queue import MemoryQueue


class MemoryDeliveries:
    """``queues``: by name, ``events`` and ``commands-…``. ``dead``: the dead letters of the engine."""

    def __init__(
        self,
        queues: Mapping[str, MemoryQueue],
        dead: Mapping[str, MemoryQueue] | None = None,
        results: ResultStore | None = None,
    ) -> None:
        self._queues, self._dead, self._results = queues, dead or {}, results

    def dead_letters(self, execution_id: int) -> Sequence[DeadLetter]:
        found: list[DeadLetter] = []
        for name, queue in self._dead.items():
            assert self._results is not None
            found += of_execution(look(name, queue, self._results), execution_id)
        return found

    def tries(self, execution_id: int, command_id: str, attempt: int, turn: int) -> CommandTries | None:
        return None

    def gauges(self) -> Sequence[QueueGauge]:
        return [queue.gauge(name) for name, queue in self._queues.items()]
