"""Schedules: make, list, look, pause, resume, delete."""

from __future__ import annotations

import secrets

from noetl.api import reading
from noetl.api.bodies import DeletedAnswer, NextAnswer, SchedulePage
from noetl.api.deps import ApiDeps
from noetl.api.endpoints.publishing import publish
from noetl.api.exchange import Answer, Request
from noetl.api.problems import BadRequestError
from noetl.domain import ids
from noetl.domain.errors import NotFoundError
from noetl.domain.schedules import instant
from noetl.domain.size_gate import exceeded
from noetl.domain.sizes import NEXT_MOMENTS
from noetl.services import manage_schedules
from noetl.services.backfill import BackfillWish
from noetl.services.backfill import backfill as start_past
from noetl.services.manage_schedules import MAX_NEXT, ScheduleWish, find_schedule, view
from noetl.services.start_playbook import StartDeps

_PAGE, _MOST = 100, 500
_NEXT = 5


def put(deps: ApiDeps, request: Request) -> Answer:
    """201 for a new one, 200 when it replaced one."""
    wish = reading.body(request, deps, ScheduleWish)
    reading.storable(wish.payload, "payload")
    made = manage_schedules.put_schedule(deps.schedules, wish)
    location = f"/api/schedules/{made.row.name}"
    return Answer(201 if made.fresh else 200, view(made.row), headers={"Location": location})


def list_schedules(deps: ApiDeps, request: Request) -> Answer:
    limit = reading.limit(request, _PAGE, _MOST)
    found = deps.schedules.store.entries(limit=limit, after=reading.text_cursor(request))
    more = reading.cursor_text(found[-1].name) if len(found) == limit else None
    return Answer(200, SchedulePage([view(row) for row in found], more))


def get(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, view(find_schedule(deps.schedules.store, _name(request))))


def get_next(deps: ApiDeps, request: Request) -> Answer:
    row = find_schedule(deps.schedules.store, _name(request))
    count = reading.whole_number(request.query.get("count", str(_NEXT)))
    if count is not None and count > MAX_NEXT:
        raise exceeded(NEXT_MOMENTS, count, "count", code="invalid_parameter", family=BadRequestError)
    if not count:
        raise BadRequestError(f"count is a number from 1 to {MAX_NEXT}", code="invalid_parameter")
    times = manage_schedules.next_times(row, deps.clock(), count)
    return Answer(200, NextAnswer(row.name, row.active, [instant(at) for at in times]))


def pause(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, view(manage_schedules.pause_schedule(deps.schedules, _name(request))))


def resume(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, view(manage_schedules.resume_schedule(deps.schedules, _name(request))))


def backfill(deps: ApiDeps, request: Request) -> Answer:
    """Each moment has the key of its firing, so a second run of one request starts nothing twice."""
    wish = reading.body(request, deps, BackfillWish)
    owner = deps.publisher.owner()
    start = StartDeps(
        store=deps.store,
        catalog=deps.catalog,
        programs=deps.programs,
        owner=owner,
        clock=deps.clock,
        random_bits=lambda: secrets.randbits(ids.RANDOM_BITS),
    )
    done = start_past(deps.schedules, start, _name(request), wish, lambda event: publish(deps, owner, event))
    return Answer(200, done)


def delete(deps: ApiDeps, request: Request) -> Answer:
    """A second run of one request (its first answer was lost) finds nothing left."""
    name = _name(request)
    try:
        manage_schedules.delete_schedule(deps.schedules, name)
    except NotFoundError:
        if not request.again:
            raise
    return Answer(200, DeletedAnswer(name))


def _name(request: Request) -> str:
    return request.params["name"]
