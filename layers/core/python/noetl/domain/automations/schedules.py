"""Fire times of schedules: cron expressions in a time zone, and rates.

What may be written is what both the local scheduler and EventBridge Scheduler can keep. Pure: the time is given. Moments are epoch
seconds, always whole.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import msgspec

from noetl.domain.durations import parse_duration
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.gate import check_text
from noetl.domain.sizes.table import SCHEDULE_NAME

MAX_RATE_DAYS = 366
MAX_NAME = SCHEDULE_NAME.value
LATEST = datetime(9900, 1, 1, tzinfo=UTC).timestamp()
"""Calendars end in 9999: nothing is computed for later moments."""
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME}}}")
_RATE = re.compile(r"([0-9]{1,7})\s+(minute|hour|day)s?")
_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
_FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
_VALUE = "(?:[0-9]{1,2}|[A-Za-z]{3})"
_ITEM = rf"(?:\*|{_VALUE}(?:-{_VALUE})?)(?:/[0-9]{{1,2}})?"
_FIELD = re.compile(rf"{_ITEM}(?:,{_ITEM}){{0,59}}")
_ZONE = re.compile(
    r"(?!(?:posix|right)/|(?:posixrules|localtime|Factory)$)[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*"
)
"""Not what some systems keep beside the zones: the machine's own time, which another machine has not, and time with leap seconds."""
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})", re.ASCII)


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The timing of a schedule: exactly one of ``cron`` and ``rate``.

    ``cron``: five fields, read in ``timezone``. ``rate``: ``5 minutes``, counted from ``anchor``.
    """

    cron: str | None = None
    rate: str | None = None
    timezone: str = "UTC"
    anchor: float = 0.0


def next_fire(timing: Timing, after: float) -> float | None:
    """Return the first fire time strictly after ``after``; None when there is none."""
    return next(iter(fires(timing, after)), None)


def next_fires(timing: Timing, after: float, count: int) -> list[float]:
    """Return the next ``count`` fire times (fewer when there are no more)."""
    return list(islice(fires(timing, after), count))


def fires(timing: Timing, after: float) -> Iterator[float]:
    """Yield every fire time strictly after ``after``, in order.

    Cron in a zone with summer time follows Debian's cron: a run at a fixed time that falls into the hour that is left out happens right
    after it, one that falls into the hour that comes twice happens once; with ``*`` in the minute or hour field every real hour counts.
    """
    if not math.isfinite(after) or after >= LATEST:
        return
    if timing.rate is not None:
        yield from _rate_fires(rate_seconds(timing.rate), timing.anchor, after)
    elif timing.cron is not None:
        yield from _cron_fires(timing.cron, zone(timing.timezone), after)


def _rate_fires(seconds: int, anchor: float, after: float) -> Iterator[float]:
    start = math.floor(anchor)
    turn = max(1, math.floor((after - start) / seconds) + 1)
    while (at := float(start + turn * seconds)) < LATEST:
        yield at
        turn += 1


def _cron_fires(cron: str, where: ZoneInfo, after: float) -> Iterator[float]:
    from cronsim import CronSim

    last = math.floor(after)
    for moment in CronSim(cron, datetime.fromtimestamp(last, UTC).astimezone(where)):
        at = moment.timestamp()
        if at >= LATEST:
            return
        # Around a change of the clock, several readings of it may mean one moment, or one that has passed.
        if at > last and at > after:
            last = int(at)
            yield float(at)


# --- what may be written ----------------------------------------------------------------------------


def check_cron(text: str) -> str:
    """``text`` with single spaces. Raises InvalidInputError(code="invalid_cron")."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise _invalid_cron(
            f"{_shown(text)} has {len(fields)} fields; cron has five",
            "minute hour day-of-month month day-of-week, such as 0 6 * * 1-5",
        )
    for name, field in zip(_FIELDS, fields, strict=True):
        if not _FIELD.fullmatch(field):
            raise _invalid_cron(
                f"{name} {_shown(field)} is not understood", "numbers, names (MON, JAN), and * , - /"
            )
    if fields[2] != "*" and fields[4] != "*":
        raise _invalid_cron(
            f"{_shown(text)} restricts both day-of-month and day-of-week",
            "write * for one of them: schedulers disagree on what both together mean",
        )
    return _evaluated(" ".join(fields).upper())


def _evaluated(cron: str) -> str:
    """Raises InvalidInputError for fields out of range, and for days that never come."""
    from cronsim import CronSim, CronSimError

    never = _invalid_cron(f"{_shown(cron)} never fires", "the month has no such day")
    try:
        next(CronSim(cron, datetime(2000, 1, 1)))  # noqa: DTZ001 - the calendar of any zone
    except CronSimError as error:
        days, months = cron.split()[2:4]
        if str(error) == "Bad day-of-month" and days.isdigit() and 29 < int(days) < 32 and months != "*":
            raise never from None
        raise _invalid_cron(
            f"{_shown(cron)}: {str(error)[:1].lower()}{str(error)[1:]}",
            "minute 0-59, hour 0-23, day-of-month 1-31, month 1-12 or JAN-DEC, day-of-week 0-7 or SUN-SAT",
        ) from None
    except StopIteration:
        raise never from None
    return cron


def check_rate(text: str) -> str:
    """Return ``5m`` or ``5 minutes`` as ``5 minutes``.

    Raises InvalidInputError(code="invalid_rate").
    """
    number, unit = _rate(text)
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def rate_seconds(text: str) -> int:
    """Raises InvalidInputError(code="invalid_rate")."""
    number, unit = _rate(text)
    return number * _SECONDS[unit]


def _rate(text: str) -> tuple[int, str]:
    found = _RATE.fullmatch(_in_words(text.strip()))
    if found is None or int(found[1]) == 0:
        raise InvalidInputError(
            f"{_shown(text)} is not a rate",
            code="invalid_rate",
            hint="whole minutes, hours or days, such as 5m, 12h, or 5 minutes",
        )
    if int(found[1]) * _SECONDS[found[2]] > MAX_RATE_DAYS * 86400:
        raise InvalidInputError(
            f"{_shown(text)} is longer than {MAX_RATE_DAYS} days",
            code="invalid_rate",
            hint="use cron for that",
        )
    return int(found[1]), found[2]


def _in_words(text: str) -> str:
    """Write a duration of whole minutes in its largest unit.

    ``90m`` → ``90 minutes``, ``1d`` → ``1 day``.
    """
    seconds = None if text.isdecimal() else parse_duration(text)
    if seconds is None or seconds <= 0 or seconds % 60:
        return text
    unit = next(unit for unit in ("day", "hour", "minute") if seconds % _SECONDS[unit] == 0)
    return f"{int(seconds) // _SECONDS[unit]} {unit}"


def zone(name: str) -> ZoneInfo:
    """An IANA time zone, spelled as it is there.

    Raises InvalidInputError(code="invalid_timezone").
    """
    try:
        if not _ZONE.fullmatch(name) or len(name) > 64:
            raise ValueError
        found = ZoneInfo(name)
        found.utcoffset(datetime(2000, 1, 1))  # noqa: DTZ001 - only whether it answers
    except (OSError, ValueError, LookupError):
        raise InvalidInputError(
            f"{_shown(name)} is not an IANA time zone",
            code="invalid_timezone",
            hint="such as Europe/Berlin, America/New_York or UTC",
        ) from None
    return found


def check_name(name: str) -> str:
    """Raises InvalidInputError(code="invalid_schedule_name")."""
    check_text(SCHEDULE_NAME, name, "the name of a schedule", code="invalid_schedule_name")
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{_shown(name)} cannot be the name of a schedule",
            code="invalid_schedule_name",
            hint=f"at most {MAX_NAME} letters, digits, _, - and .",
        )
    return name


def check_timing(timing: Timing) -> Timing:
    """The timing as it is kept. Raises InvalidInputError, naming what is wrong."""
    if (timing.cron is None) == (timing.rate is None):
        raise InvalidInputError(
            "a schedule has either cron or rate",
            code="invalid_schedule",
            hint="cron: 0 6 * * 1-5, or rate: 5 minutes",
        )
    zone(timing.timezone)
    cron = None if timing.cron is None else check_cron(timing.cron)
    rate = None if timing.rate is None else check_rate(timing.rate)
    return msgspec.structs.replace(timing, cron=cron, rate=rate)


def name_for(path: str) -> str:
    """Return the name of a playbook's schedule without one: its path with dots for slashes."""
    name = path.replace("/", ".")
    if _NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub('[^A-Za-z0-9_.-]+', '-', name)[: MAX_NAME - 9]}-{digest}"


# --- moments ----------------------------------------------------------------------------------------


def instant(at: float) -> str:
    """``2026-03-01T06:00:00Z``: the one spelling of a moment."""
    return f"{datetime.fromtimestamp(math.floor(at), UTC):%Y-%m-%dT%H:%M:%S}Z".rjust(20, "0")


def parse_instant(text: str) -> float:
    """Epoch seconds (whole) of an ISO 8601 time with its zone.

    Raises InvalidInputError(code="invalid_time").
    """
    try:
        if not _INSTANT.fullmatch(text):
            raise ValueError
        found = datetime.fromisoformat(text)
        return float((found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1))
    except (ValueError, OverflowError):
        raise InvalidInputError(
            f"{_shown(text)} is not a time", code="invalid_time", hint="such as 2026-03-01T06:00:00Z"
        ) from None


def fire_key(name: str, at: float, path: str) -> str:
    """Return the idempotency key of a schedule's firing for one moment.

    Two such firings start one execution. ``path``: the path of the schedule's playbook. When a schedule's name is reused for another
    playbook, the key differs, so that playbook starts regardless of what the former one started.
    """
    return f"schedule:{name}:{instant(at)}:{path}"


def _invalid_cron(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code="invalid_cron", hint=hint)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}…")
