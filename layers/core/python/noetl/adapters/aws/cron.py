"""Conversion of cron expressions from five fields to the six fields of AWS.

It is exact or refused.

AWS counts weekdays from 1 = Sunday, wants ``?`` in one of the two day fields, and has no way to say "on the 13th or on Fridays". The
reader that the local scheduler uses interprets the fields, so both schedulers fire at the same times.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise

from noetl.domain.automations.schedules import check_cron, check_rate
from noetl.domain.errors import InvalidInputError

LONGEST = 256
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def aws_cron(expression: str) -> str:
    """Convert a cron expression: ``0 6 * * 1-5`` → ``cron(0 6 ? * MON,TUE,WED,THU,FRI *)``.

    Raises InvalidInputError: ``invalid_cron`` (see ``check_cron``: both day fields restricted, for one), ``cron_too_long``.
    """
    from cronsim import CronSim

    checked = check_cron(expression)
    read = CronSim(checked, datetime(2000, 1, 1))  # noqa: DTZ001 - only its fields are read
    any_weekday = checked.endswith(" *")
    fields = [
        _written(read.minutes, 0, 59),
        _written(read.hours, 0, 23),
        _written(read.days, 1, 31) if any_weekday else "?",
        _written(read.months, 1, 12),
        "?" if any_weekday else _names(read.weekdays),
        "*",
    ]
    written = f"cron({' '.join(fields)})"
    if len(written) > LONGEST:
        raise InvalidInputError(
            f"cron {expression!r} becomes longer than the {LONGEST} characters EventBridge Scheduler takes",
            code="cron_too_long",
            hint="make several schedules, or use steps (*/n)",
        )
    return written


def aws_rate(expression: str) -> str:
    """Convert an interval: ``5 minutes`` → ``rate(5 minutes)``.

    Raises InvalidInputError(code="invalid_rate").
    """
    return f"rate({check_rate(expression)})"


def _names(weekdays: Iterable[int | tuple[int, int]]) -> str:
    return ",".join(
        _DAYS[day] for day in sorted({int(day) % 7 for day in weekdays if not isinstance(day, tuple)})
    )


def _written(values: Iterable[int], first: int, last: int) -> str:
    """Write the values of a field in the shortest form that AWS documents.

    Forms: ``*``, ``a-b``, ``start/step`` (which runs to the end of the field) or a list.
    """
    found = sorted(values)
    if len(found) == last - first + 1:
        return "*"
    steps = {later - earlier for earlier, later in pairwise(found)}
    if len(steps) == 1:
        step = steps.pop()
        if step == 1:
            return f"{found[0]}-{found[-1]}"
        if len(found) > 2 and found[-1] + step > last:
            return f"{found[0]}/{step}"
    return ",".join(map(str, found))
