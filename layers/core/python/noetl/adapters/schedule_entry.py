"""What any scheduler takes: checked once, for EventBridge Scheduler and for its twin."""

from __future__ import annotations

import msgspec

from noetl.domain.automations.schedules import Timing, check_name, check_timing
from noetl.domain.errors import InvalidInputError
from noetl.ports.automations.schedules import ScheduleEntry


def check_entry(entry: ScheduleEntry) -> ScheduleEntry:
    """The entry in its one spelling.

    Raises InvalidInputError: ``invalid_schedule``, ``invalid_schedule_name``, ``invalid_cron``, ``invalid_rate``, ``invalid_timezone``.
    """
    check_name(entry.name)
    timing = check_timing(Timing(entry.cron, entry.rate, entry.timezone))
    return msgspec.structs.replace(entry, cron=timing.cron, rate=timing.rate)


def is_name(name: str) -> bool:
    """Whether a schedule can be called this."""
    try:
        check_name(name)
    except InvalidInputError:
        return False
    return True
