"""Port of the store for lines that tasks print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from noetl.domain.task_logs import LinePage, TaskLine

PAGE_BYTES = 1024 * 1024
"""About how much text one page holds at most."""


class TaskLogs(Protocol):
    """Lines by execution.

    Adapters: a file per execution; memory; objects of a bucket, a few seconds at a time.

    Raises InfrastructureError when they cannot be reached.
    """

    def append(self, execution_id: int, lines: Sequence[TaskLine]) -> None:
        """They can be read when this returns. One task's lines keep their order."""

    def read(self, execution_id: int, after: str, limit: int, *, everything: bool) -> LinePage:
        """From the beginning, or after the ``next`` of a page.

        ``everything``: nothing is added any more, so also the youngest.

        Raises InvalidInputError(code="invalid_cursor").
        """

    def end(self, execution_id: int, *, everything: bool) -> str:
        """Return the cursor behind the newest line that can be read."""

    def read_back(self, execution_id: int, before: str, limit: int) -> LinePage:
        """Read the lines before a cursor, the newest first.

        Raises InvalidInputError(code="invalid_cursor").
        """

    def delete_execution(self, execution_id: int) -> None:
        """Remove its lines; an execution that has none is no error."""
