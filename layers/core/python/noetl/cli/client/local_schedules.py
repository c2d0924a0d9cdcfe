"""Schedules of this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from noetl.cli.client import runtime_access
from noetl.cli.client.protocol import Change
from noetl.runtime.id_source import random_bits

if TYPE_CHECKING:
    from noetl.services.automations.backfill import Backfill, BackfillRequest
    from noetl.services.automations.schedules import ScheduleDeps, ScheduleView


class SchedulesHere:
    """The part of ``Here`` that is about schedules."""

    _reading: runtime_access.Reading

    def schedules(self, limit: int) -> Sequence[ScheduleView]:
        from noetl.services.automations.schedules import view

        return [view(row) for row in self._reading.schedules.entries(limit=limit)]

    def schedule(self, name: str) -> ScheduleView:
        from noetl.services.automations import schedules as manage_schedules

        return manage_schedules.view(manage_schedules.find_schedule(self._reading.schedules, name))

    def next_times(self, name: str, count: int) -> Sequence[float]:
        from noetl.services.automations import schedules as manage_schedules

        row = manage_schedules.find_schedule(self._reading.schedules, name)
        return manage_schedules.next_times(row, time.time(), count)

    def backfill(self, name: str, request: BackfillRequest) -> Backfill:
        """Start missed moments. Any process that runs executions of this database takes them up."""
        from noetl.services.automations.backfill import backfill
        from noetl.services.executions.start_playbook import StartDeps

        reading = self._reading
        start = StartDeps(
            store=reading.store,
            catalog=reading.catalog,
            programs=reading.programs,
            owner="",
            clock=time.time,
            random_bits=random_bits,
        )
        return backfill(self._schedules(), start, name, request, lambda event: None)

    def change_schedule(self, what: Change, name: str) -> ScheduleView:
        from noetl.services.automations import schedules as manage_schedules

        changes = {
            "pause": manage_schedules.pause_schedule,
            "resume": manage_schedules.resume_schedule,
            "delete": manage_schedules.delete_schedule,
        }
        return manage_schedules.view(changes[what](self._schedules(), name))

    def _schedules(self) -> ScheduleDeps:
        from noetl.services.automations.schedules import ScheduleDeps
        from noetl.services.support.store_time import store_clock

        reading = self._reading
        return ScheduleDeps(
            reading.schedules, None, reading.catalog, reading.programs, store_clock(reading.store.load)
        )
