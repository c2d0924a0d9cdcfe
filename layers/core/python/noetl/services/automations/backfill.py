"""Backfill: starts for past fire times, each once, under the key of its firing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Literal

import msgspec

from noetl.domain.automations.schedules import fires, instant, parse_instant
from noetl.domain.errors import InfrastructureError, InvalidInputError, NoetlError
from noetl.domain.events import Event
from noetl.domain.text.timestamps import TimeText
from noetl.ports.automations.schedule_store import ScheduleRow
from noetl.services.automations.fire_schedule import start_moment, timing_of
from noetl.services.automations.schedules import ScheduleDeps, find_schedule
from noetl.services.executions.start_playbook import StartDeps

MOST_STARTS = 500
STARTS = 100
"""Moments in one answer unless asked for otherwise."""
LOOKED_AT = 10_000
"""Most moments looked at in one call; the rest of the range is asked for next."""


class BackfillRequest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"since": "from", "until": "to"}
):
    """A range of fire times to backfill.

    ``from`` and ``to``: ISO 8601 with a zone, both included. ``only_missed``: leave out moments for which an execution was started
    already. ``dry_run``: only report. ``limit``: most moments in one answer.
    """

    since: str
    until: str
    only_missed: bool = False
    dry_run: bool = False
    limit: int = STARTS


class BackfilledMoment(msgspec.Struct, frozen=True):
    """One fire time of a backfill.

    ``status``: started (now), existing (started before: ``execution_id``), pending (would be, without ``dry_run``), or refused (why:
    ``error``; nothing after it was tried).
    """

    at: TimeText
    status: Literal["started", "existing", "pending", "refused"]
    execution_id: str | None = None
    error: str | None = None


class Backfill(msgspec.Struct, frozen=True):
    """Result of a backfill.

    ``moments``: ascending. ``next``: where to continue when the range has more; null otherwise.
    """

    name: str
    dry_run: bool
    moments: list[BackfilledMoment]
    next: str | None


def backfill(
    schedules: ScheduleDeps,
    start: StartDeps,
    name: str,
    request: BackfillRequest,
    publish: Callable[[Event], None],
) -> Backfill:
    """Start the executions of a range of past fire times; a repeated call starts none twice.

    ``publish``: called with every Start, which is durable by then. The schedule's overlap policy is not applied. Raises NotFoundError,
    InvalidInputError (``invalid_time``, ``invalid_range``, ``invalid_parameter``, ``backfill_rate``), InfrastructureError, and what the
    first start is refused with.
    """
    since, until = _range(request, schedules.clock())
    row = find_schedule(schedules.store, name)
    if row.rate is not None and schedules.schedules is not None:
        raise InvalidInputError(
            "EventBridge Scheduler counts rates from its own starting time, so NoETL cannot know which runs were missed",
            code="backfill_rate",
            hint="use cron for what has to be made up for",
        )
    candidates = takewhile(lambda at: at <= until, fires(timing_of(row), since - 1))
    looked = list(islice(candidates, LOOKED_AT + 1))
    more = looked.pop() if len(looked) > LOOKED_AT else None
    known = schedules.store.moments(name, looked[0], looked[-1]) if looked else {}
    wanted = [at for at in looked if not (request.only_missed and at in known)]
    if len(wanted) > request.limit:
        more = wanted[request.limit]
    moments = []
    for moment in _each(row, wanted[: request.limit], known, request, schedules, start, publish):
        moments.append(moment)
        if moment.status == "refused":
            more = parse_instant(moment.at)
            break
    return Backfill(name, request.dry_run, moments, None if more is None else instant(more))


def _each(
    row: ScheduleRow,
    wanted: list[float],
    known: Mapping[float, int],
    request: BackfillRequest,
    schedules: ScheduleDeps,
    start: StartDeps,
    publish: Callable[[Event], None],
) -> Iterator[BackfilledMoment]:
    for place, at in enumerate(wanted):
        if at in known:
            yield BackfilledMoment(instant(at), "existing", str(known[at]))
        elif request.dry_run:
            yield BackfilledMoment(instant(at), "pending")
        else:
            try:
                started = start_moment(row, at, start, answered=True)
            except NoetlError as error:
                if place == 0 or isinstance(error, InfrastructureError) or error.retryable:
                    raise
                yield BackfilledMoment(instant(at), "refused", error=f"{error.code}: {error}")
                return
            if started.event is not None:
                publish(started.event)
            schedules.store.keep_moment(row.name, at, started.execution_id)
            status: Literal["started", "existing"] = "existing" if started.event is None else "started"
            yield BackfilledMoment(instant(at), status, str(started.execution_id))


def _range(request: BackfillRequest, now: float) -> tuple[float, float]:
    since, until = parse_instant(request.since), parse_instant(request.until)
    if since > until:
        raise _bad_range("from is after to", "give the earlier moment as from")
    if since < 0:
        raise _bad_range(f"from is {request.since[:40]}, before 1970", "no moment of a schedule is that old")
    if until > now:
        raise _bad_range(
            f"to is {instant(until)}, which is not over yet", "what is to come the schedule starts by itself"
        )
    if not 1 <= request.limit <= MOST_STARTS:
        raise InvalidInputError(
            f"the limit is {request.limit}, not 1 to {MOST_STARTS}", code="invalid_parameter"
        )
    return since, until


def _bad_range(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code="invalid_range", hint=hint)
