"""Five fields to six: the same moments."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from noetl.adapters.aws.cron import aws_cron, aws_rate
from noetl.domain.automations.schedules import Timing, next_fires
from noetl.domain.errors import InvalidInputError
from tests.parts import over

START = datetime(2027, 2, 20, 22, 58, tzinfo=UTC)


@over(
    ("five", "six"),
    [
        ("* * * * *", "* * * * ? *"),
        ("0 6 * * 1-5", "0 6 ? * MON,TUE,WED,THU,FRI *"),
        ("0 6 * * mon-fri", "0 6 ? * MON,TUE,WED,THU,FRI *"),
        ("*/15 * * * *", "0/15 * * * ? *"),
        ("5-59/20 9-17 * * *", "5/20 9-17 * * ? *"),
        ("0,30 0 1 JAN,JUL *", "0,30 0 1 1,7 ? *"),
        ("0 0 */10 * *", "0 0 1/10 * ? *"),
        ("0 0 * */3 7", "0 0 ? 1/3 SUN *"),
        ("0 0 * * 0-6", "0 0 ? * SUN,MON,TUE,WED,THU,FRI,SAT *"),
        ("0 0 * * 5-7", "0 0 ? * SUN,FRI,SAT *"),
        ("10-20/5 0 28-31 * *", "10,15,20 0 28-31 * ? *"),
    ],
)
def test_what_aws_reads(five, six):
    assert aws_cron(five) == f"cron({six})"


def meant(text: str, first: int, last: int, names: tuple[str, ...] = ()) -> set[int]:
    """What AWS documents of a field."""
    if text in "*?":
        return set(range(first, last + 1))
    found = set()
    for part in text.split(","):
        if "/" in part:
            start, step = map(int, part.split("/"))
            found |= set(range(start, last + 1, step))
        elif "-" in part:
            low, high = map(int, part.split("-"))
            found |= set(range(low, high + 1))
        else:
            found.add(names.index(part) + 1 if part in names else int(part))
    return found


def aws_fires(expression: str, count: int) -> list[float]:
    minute, hour, day, month, weekday, year = expression.removeprefix("cron(").removesuffix(")").split()
    assert year == "*" and (day == "?") != (weekday == "?")
    minutes, hours, days = meant(minute, 0, 59), meant(hour, 0, 23), meant(day, 1, 31)
    months = meant(month, 1, 12)
    weekdays = meant(weekday, 1, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))
    found: list[float] = []
    date = START.replace(hour=0, minute=0)
    while len(found) < count:
        if date.day in days and date.month in months and (date.isoweekday() % 7) + 1 in weekdays:
            moments = (date.replace(hour=h, minute=m) for h in sorted(hours) for m in sorted(minutes))
            found += [moment.timestamp() for moment in moments if moment > START]
        date += timedelta(days=1)
    return found[:count]


def a_field(rng: random.Random, first: int, last: int) -> str:
    low, high = sorted((rng.randint(first, last), rng.randint(first, last)))
    step = rng.randint(1, max(1, last // 3))
    forms = [
        "*",
        f"*/{step}",
        str(low),
        f"{low}-{high}",
        f"{low}-{high}/{step}",
        f"{low},{high},{low}-{high}/{step}",
    ]
    return rng.choice(forms)


@over("seed", range(60))
def test_it_fires_when_the_local_scheduler_does(seed):
    rng = random.Random(seed)
    fields = [a_field(rng, *bounds) for bounds in ((0, 59), (0, 23), (1, 28), (1, 12), (0, 7))]
    fields[rng.choice((2, 4))] = "*"
    five = " ".join(fields)
    assert aws_fires(aws_cron(five), 40) == next_fires(Timing(cron=five), START.timestamp(), 40), five


@over(
    ("five", "code"),
    [
        ("0 0 13 * 5", "invalid_cron"),
        ("0 0 */2 * 1", "invalid_cron"),
        ("0 0 * *", "invalid_cron"),
        ("60 0 * * *", "invalid_cron"),
        ("0 0 L * *", "invalid_cron"),
        ("0 0 ? * *", "invalid_cron"),
        ("0 0 * * ?", "invalid_cron"),
        ("0 0 30 2 *", "invalid_cron"),
        ("@daily", "invalid_cron"),
        ("", "invalid_cron"),
        (
            f"{','.join(map(str, [0, *range(2, 60)]))} {','.join(map(str, [0, *range(2, 24)]))} 1,3,4,5,6,7,8,9,30 * *",
            "cron_too_long",
        ),
    ],
)
def test_what_cannot_be_said_is_refused(five, code):
    with pytest.raises(InvalidInputError) as caught:
        aws_cron(five)
    assert caught.value.code == code and caught.value.hint


def test_rates():
    assert aws_rate("1 minutes") == "rate(1 minute)" and aws_rate("12 hour") == "rate(12 hours)"
    for text in ("30 seconds", "0 minutes", "5", "1.5 hours"):
        with pytest.raises(InvalidInputError):
            aws_rate(text)
