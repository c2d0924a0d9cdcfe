"""Cron as everybody writes it (five fields) → cron as AWS reads it (six fields), exactly or not at all.

AWS counts weekdays from 1 = Sunday, wants ``?`` in one of the two day fields, and has no way to say "on the 13th or on Fridays".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from noetl.domain.errors import InvalidInputError

LONGEST = 256
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_PART = re.compile(r"(?:(\*)|([0-9]{1,2}|[A-Z]{3})(?:-([0-9]{1,2}|[A-Z]{3}))?)(?:/([0-9]{1,2}))?", re.ASCII)
_RATE = re.compile(r"([0-9]{1,9})\s*(minute|hour|day)s?", re.ASCII)


class _Field(NamedTuple):
    name: str
    first: int
    last: int
    names: Sequence[str] = ()
    names_from: int = 0


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS, 1),
    _Field("day of week", 0, 7, _DAYS, 0),
)


def aws_cron(expression: str) -> str:
    """``0 6 * * 1-5`` → ``cron(0 6 ? * MON,TUE,WED,THU,FRI *)``.

    Raises InvalidInputError: ``cron_invalid`` (not five-field cron), ``cron_inexpressible`` (AWS cannot say it).
    """
    texts = expression.upper().split()
    if len(texts) != len(_FIELDS):
        raise _invalid(expression, f"it has {len(texts)} fields instead of 5 (minute hour day month weekday)")
    sets = [_values(expression, text, field) for text, field in zip(texts, _FIELDS, strict=True)]
    any_day, any_weekday = texts[2] == "*", texts[4] == "*"
    if not any_day and not any_weekday:
        raise InvalidInputError(
            f"cron {expression!r} names days of the month and days of the week; EventBridge Scheduler takes one of them",
            code="cron_inexpressible",
            hint="make two schedules",
        )
    minute, hour, day, month = (
        _written(found, field) for found, field in zip(sets[:4], _FIELDS, strict=False)
    )
    weekdays = sorted({value % 7 for value in sets[4]})
    weekday = "?" if any_weekday else ",".join(_DAYS[value] for value in weekdays)
    written = f"cron({minute} {hour} {day if any_weekday else '?'} {month} {weekday} *)"
    if len(written) > LONGEST:
        raise InvalidInputError(
            f"cron {expression!r} becomes longer than the {LONGEST} characters EventBridge Scheduler takes",
            code="cron_inexpressible",
            hint="make several schedules, or use steps (*/n)",
        )
    return written


def aws_rate(expression: str) -> str:
    """``5 minutes`` → ``rate(5 minutes)``. Raises InvalidInputError(code="rate_invalid")."""
    found = _RATE.fullmatch(expression.strip().lower())
    if found is None or int(found[1]) == 0:
        raise InvalidInputError(
            f"rate {expression!r} cannot be scheduled",
            code="rate_invalid",
            hint="a whole number of minutes, hours or days: '5 minutes'",
        )
    number = int(found[1])
    return f"rate({number} {found[2]}{'' if number == 1 else 's'})"


def _values(expression: str, text: str, field: _Field) -> list[int]:
    values: set[int] = set()
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise _invalid(expression, f"{part!r} is not a {field.name}")
        star, low_text, high_text, step_text = found.groups()
        low = field.first if star else _number(expression, low_text, field)
        # "5/10" (a start and a step) means "from 5 on".
        last = 6 if field.names is _DAYS else field.last
        high = (
            last
            if star or (step_text and not high_text)
            else _number(expression, high_text or low_text, field)
        )
        step = int(step_text or 1)
        if high < low or step == 0:
            raise _invalid(expression, f"{part!r} is not a {field.name}: an empty range")
        values.update(range(low, high + 1, step))
    return sorted(values)


def _number(expression: str, text: str, field: _Field) -> int:
    if text in field.names:
        return field.names.index(text) + field.names_from
    if not text.isdigit() or not field.first <= int(text) <= field.last:
        raise _invalid(expression, f"{text!r} is not a {field.name} ({field.first} to {field.last})")
    return int(text)


def _written(values: list[int], field: _Field) -> str:
    """The shortest way AWS documents: ``*``, ``start/step`` (which runs to the end of the field), ``a-b`` or a list."""
    if len(values) == field.last - field.first + 1:
        return "*"
    steps = {later - earlier for earlier, later in pairwise(values)}
    if len(steps) == 1:
        step = steps.pop()
        if step == 1:
            return f"{values[0]}-{values[-1]}"
        if len(values) > 2 and values[-1] + step > field.last:
            return f"{values[0]}/{step}"
    return ",".join(map(str, values))


def _invalid(expression: str, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"cron {expression!r} cannot be scheduled: {reason}",
        code="cron_invalid",
        hint="five fields: minute hour day-of-month month day-of-week",
    )
