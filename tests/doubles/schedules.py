"""Schedules in memory; nothing fires them."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.schedule_entry import check_entry
from noetl.ports.automations.schedules import ScheduleEntry


class MemorySchedules:
    def __init__(self) -> None:
        self._entries: dict[str, ScheduleEntry] = {}

    def put(self, entry: ScheduleEntry) -> None:
        self._entries[entry.name] = check_entry(entry)

    def delete(self, name: str) -> bool:
        return self._entries.pop(name, None) is not None

    def get(self, name: str) -> ScheduleEntry | None:
        return self._entries.get(name)

    def entries(self) -> Sequence[ScheduleEntry]:
        return [self._entries[name] for name in sorted(self._entries)]
