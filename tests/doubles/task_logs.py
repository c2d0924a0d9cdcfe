"""Lines of tasks in this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from noetl.adapters.line_pages import number
from noetl.domain.task_logs import LinePage, TaskLine


class MemoryTaskLogs:
    """A cursor is the number of lines that were told."""

    def __init__(self) -> None:
        self.lines: defaultdict[int, list[TaskLine]] = defaultdict(list)

    def append(self, execution_id: int, lines: Sequence[TaskLine]) -> None:
        self.lines[execution_id] += lines

    def read(self, execution_id: int, after: str, limit: int, *, everything: bool) -> LinePage:
        start, kept = number(after), self.lines.get(execution_id, [])
        told = kept[start : start + limit]
        return LinePage(told, str(start + len(told)), start + len(told) < len(kept))

    def delete_execution(self, execution_id: int) -> None:
        self.lines.pop(execution_id, None)
