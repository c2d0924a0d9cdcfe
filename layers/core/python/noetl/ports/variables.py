"""Port that reads the variables of executions.

They are written with the events that change them (``ExecutionStore.commit`` and ``post``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from noetl.domain.variables import Variable


class Variables(Protocol):
    """One round trip per call. Raises InfrastructureError when the store cannot be reached."""

    def variables(self, execution_id: int) -> Sequence[Variable]:
        """All of an execution, by name. Counts nothing."""

    def read_variable(self, execution_id: int, name: str) -> Variable | None:
        """One, counted: its ``access_count`` and ``accessed_at`` are those after this read."""
