"""Results of executions on this machine."""

from __future__ import annotations

from typing import Any

from noetl.cli.client import runtime_access
from noetl.ports.results import ResultStore
from noetl.services.queries import read_execution


class ResultsHere:
    _reading: runtime_access.Reading

    def result(self, execution_id: int) -> Any:
        return read_execution.result(self._reading.store, self._reading.results, execution_id)

    def parts(self, execution_id: int) -> tuple[Any, ResultStore]:
        return read_execution.unresolved_result(self._reading.store, execution_id), self._reading.results
