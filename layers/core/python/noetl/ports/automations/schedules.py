"""Port of the scheduler that fires schedules.

Adapters: EventBridge Scheduler, memory (the local thread reads the ``schedule`` table).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from noetl.domain.automations.missed_run_policy import CatchUp


class ScheduleEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schedule at the scheduler.

    ``name``: unique. ``expression``: as the playbook wrote it, checked: ``cron: 0 6 * * 1-5`` (five fields) or ``rate: 5 minutes``.
    ``path``/``version``: what starts (latest when None). ``payload``: the workload it starts with. ``catch_up``: how long a moment that
    cannot be delivered is tried again.
    """

    name: str
    path: str
    cron: str | None = None
    rate: str | None = None
    timezone: str = "UTC"
    version: int | None = None
    payload: dict[str, Any] = {}
    enabled: bool = True
    catch_up: CatchUp = "once"


class Schedules(Protocol):
    """Raises InfrastructureError when the scheduler cannot be reached."""

    def put(self, entry: ScheduleEntry) -> None:
        """Make or replace the schedule of this name.

        Raises InvalidInputError for an expression the scheduler cannot express.
        """

    def delete(self, name: str) -> bool:
        """False when there was none."""

    def get(self, name: str) -> ScheduleEntry | None: ...

    def entries(self) -> Sequence[ScheduleEntry]:
        """All, by name."""
