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
        places = [str(start + place + 1) for place in range(len(told))]
        return LinePage(told, str(start + len(told)), start + len(told) < len(kept), places)

    def end(self, execution_id: int, *, everything: bool) -> str:
        return str(len(self.lines.get(execution_id, ())))

    def read_back(self, execution_id: int, before: str, limit: int) -> LinePage:
        kept = self.lines.get(execution_id, [])[: number(before)]
        told = kept[::-1][:limit]
        left = len(kept) - len(told)
        return LinePage(told, str(left), left > 0, [str(len(kept) - place - 1) for place in range(len(told))])

    def delete_execution(self, execution_id: int) -> None:
        self.lines.pop(execution_id, None)
