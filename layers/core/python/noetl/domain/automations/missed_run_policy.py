"""Policies of a schedule for missed runs and for overlapping executions.

Pure: time is an argument.

A fire time is missed when no process fired it within ``LATE_SECONDS``: the process was away, the database or the network was.
"""

from __future__ import annotations

import math
from itertools import takewhile
from typing import Literal, NamedTuple, get_args

import msgspec

from noetl.domain.automations.schedules import Timing, fires, next_fire, rate_seconds
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import CATCH_UP

CatchUp = Literal["once", "all", "none"]
"""``once``: of the missed moments the newest. ``all``: every one, oldest first, at most ``catch_up_max``: the newest. ``none``: no one."""
Overlap = Literal["allow", "skip", "cancel_previous"]
"""What a firing does while the execution that the schedule started before still runs: start beside it, start nothing, or cancel it."""
LATE_SECONDS = 60.0
LATE_DELIVERY_SECONDS = 180.0
"""The same limit for EventBridge Scheduler: it delivers a moment within the minute, and a cold start comes on top."""
MOST_CAUGHT_UP = 100
"""``catch_up_max`` unless given."""
MAX_CATCH_UP = CATCH_UP.value


class SchedulePolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a schedule behaves when things do not go as planned."""

    catch_up: CatchUp = "once"
    catch_up_max: int = MOST_CAUGHT_UP
    overlap: Overlap = "allow"


class Due(NamedTuple):
    """Moments of a schedule that are due.

    ``times``: to be fired, ascending. ``dropped``: the newest moment that is left out for good, if any is newer than all of them.
    Neither: every moment up to now is settled. ``left_out``: the oldest and the newest of the moments before ``times`` that are left out.
    """

    times: list[float]
    dropped: float | None = None
    left_out: tuple[float, float] | None = None


def check_conduct(conduct: SchedulePolicy) -> SchedulePolicy:
    """Return the policies unchanged. Raises InvalidInputError(code="invalid_schedule")."""
    if conduct.catch_up not in get_args(CatchUp):
        raise _invalid(f"catch_up {conduct.catch_up!r} is none of {', '.join(get_args(CatchUp))}")
    if conduct.overlap not in get_args(Overlap):
        raise _invalid(f"overlap {conduct.overlap!r} is none of {', '.join(get_args(Overlap))}")
    if conduct.catch_up_max > MAX_CATCH_UP:
        remedy = "older moments are started by a backfill"
        raise exceeded(CATCH_UP, conduct.catch_up_max, "catch_up_max", code="invalid_schedule", remedy=remedy)
    if conduct.catch_up_max < 1:
        raise _invalid(f"catch_up_max is {conduct.catch_up_max}, not 1 to {MAX_CATCH_UP}")
    return conduct


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError(message, code="invalid_schedule")


def moments(timing: Timing, since: float, until: float) -> list[float]:
    """Return every fire time of ``since`` ≤ at ≤ ``until``, ascending."""
    return list(takewhile(lambda at: at <= until, fires(timing, math.ceil(since) - 1)))


def latest_moments(timing: Timing, since: float, until: float, count: int) -> list[float]:
    """The newest ``count`` moments of ``since`` ≤ at ≤ ``until``, ascending.

    It looks back no further than it has to.
    """
    span = 3600.0 if timing.rate is None else float(rate_seconds(timing.rate) * (count + 1))
    while True:
        begin = max(since, until - span)
        found = moments(timing, begin, until)
        if len(found) >= count or begin <= since:
            return found[-count:]
        span *= 4


def due_moments(
    conduct: SchedulePolicy, timing: Timing, since: float, now: float, last_at: float | None = None
) -> Due:
    """Return what has to be fired ``now`` of a schedule whose next moment is ``since``.

    ``last_at``: the newest moment that is settled; it and all before it are never due again. ``since`` may be one of them, because a process
    with a slow clock, or one that read the schedule before that moment, has written it. Epoch seconds.
    """
    if last_at is not None and since <= last_at:
        following = next_fire(timing, last_at)
        since = math.inf if following is None else following
    if since > now:
        return Due([])
    count = conduct.catch_up_max if conduct.catch_up == "all" else 1
    found = [since, *latest_moments(timing, since + 1, now, count)][-count:]
    if conduct.catch_up == "none" and now - found[-1] >= LATE_SECONDS:
        return Due([], found[-1], (since, found[-1]))
    if found[0] == since:
        return Due(found)
    before = [since, *latest_moments(timing, since + 1, found[0] - 1, 1)]
    return Due(found, left_out=(since, before[-1]))


def too_late(conduct: SchedulePolicy, timing: Timing, at: float, last_at: float | None, now: float) -> str:
    """Return why a moment reported at ``now`` starts nothing, or "" when it does start.

    ``last_at``: the newest moment that was fired.
    """
    if now - at < LATE_DELIVERY_SECONDS or at == last_at:
        return ""
    if conduct.catch_up == "none":
        return "it was missed, and catch_up is none"
    if conduct.catch_up == "once":
        return (
            "it was missed, and a later moment has fired since"
            if last_at is not None and last_at > at
            else ""
        )
    counted = msgspec.structs.replace(timing, anchor=at)
    newer = latest_moments(counted, at + 1, now, conduct.catch_up_max)
    return (
        f"{len(newer)} later moments were missed, too: catch_up_max"
        if len(newer) == conduct.catch_up_max
        else ""
    )
