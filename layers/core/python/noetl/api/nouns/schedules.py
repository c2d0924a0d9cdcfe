"""Schedules: make, list, look, pause, resume, delete.

What starts by itself.
"""

from __future__ import annotations

import secrets
from typing import Any

from noetl.api.deleting import delete_named
from noetl.api.deps import ApiDeps
from noetl.api.http import bodies, parse
from noetl.api.http.bodies import NextAnswer, SchedulePage
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError
from noetl.api.http.publishing import publish
from noetl.api.http.route import AFTER, Endpoint, Parameter, Route, limit
from noetl.domain import ids
from noetl.domain.automations.schedules import instant
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import NEXT_MOMENTS
from noetl.services.automations import schedules
from noetl.services.automations.backfill import Backfill, BackfillRequest
from noetl.services.automations.backfill import backfill as start_past
from noetl.services.automations.schedules import MAX_NEXT, ScheduleRequest, ScheduleView, find_schedule, view
from noetl.services.executions.start_playbook import StartDeps

_PAGE, _MOST = 100, 500
_NEXT = 5


def put(deps: ApiDeps, request: Request) -> Answer:
    """201 for a new one, 200 when it replaced one."""
    body = parse.body(request, deps, ScheduleRequest)
    parse.storable(body.payload, "payload")
    made = schedules.put_schedule(deps.schedules, body)
    location = f"/api/schedules/{made.row.name}"
    return Answer(201 if made.fresh else 200, view(made.row), headers={"Location": location})


def list_schedules(deps: ApiDeps, request: Request) -> Answer:
    limit = parse.limit(request, _PAGE, _MOST)
    found = deps.schedules.store.entries(limit=limit, after=parse.text_cursor(request))
    more = parse.cursor_text(found[-1].name) if len(found) == limit else None
    return Answer(200, SchedulePage([view(row) for row in found], more))


def get(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, view(find_schedule(deps.schedules.store, _name(request))))


def get_next(deps: ApiDeps, request: Request) -> Answer:
    row = find_schedule(deps.schedules.store, _name(request))
    count = parse.whole_number(request.query.get("count", str(_NEXT)))
    if count is not None and count > MAX_NEXT:
        raise exceeded(NEXT_MOMENTS, count, "count", code="invalid_parameter", family=BadRequestError)
    if not count:
        raise BadRequestError(f"count is a number from 1 to {MAX_NEXT}", code="invalid_parameter")
    times = schedules.next_times(row, deps.clock(), count)
    return Answer(200, NextAnswer(row.name, row.active, [instant(at) for at in times]))


def pause(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, view(schedules.pause_schedule(deps.schedules, _name(request))))


def resume(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, view(schedules.resume_schedule(deps.schedules, _name(request))))


def backfill(deps: ApiDeps, request: Request) -> Answer:
    """Start missed moments; each has the key of its firing, so a repeat starts nothing twice."""
    body = parse.body(request, deps, BackfillRequest)
    owner = deps.publisher.owner()
    start = StartDeps(
        store=deps.store,
        catalog=deps.catalog,
        programs=deps.programs,
        owner=owner,
        clock=deps.clock,
        random_bits=lambda: secrets.randbits(ids.RANDOM_BITS),
    )
    done = start_past(deps.schedules, start, _name(request), body, lambda event: publish(deps, owner, event))
    return Answer(200, done)


def delete(deps: ApiDeps, request: Request) -> Answer:
    name = _name(request)
    return delete_named(request, name, lambda: schedules.delete_schedule(deps.schedules, name))


def _name(request: Request) -> str:
    return request.params["name"]


_COUNT = Parameter(
    "count", "How many moments.", {"type": "integer", "minimum": 1, "maximum": MAX_NEXT, "default": 5}
)
_SCHEDULE = "/api/schedules/{name}"


def _schedule(
    method: str, path: str, name: str, about: str, scope: str, endpoint: Endpoint, answer: Any, **more: Any
) -> Route:
    return Route(method, path, name, about, scope, endpoint, {200: answer}, "schedules", **more)


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/schedules",
        "putSchedule",
        "Make a schedule, or replace the one of this name. Those that playbooks declare are changed there.",
        "write",
        put,
        {201: ScheduleView, 200: ScheduleView},
        "schedules",
        body=ScheduleRequest,
        logged=True,
        refuses=(409, 429),
    ),
    _schedule(
        "GET",
        "/api/schedules",
        "listSchedules",
        "What starts by itself, by name.",
        "read",
        list_schedules,
        bodies.SchedulePage,
        query=(AFTER, limit(100, 500)),
    ),
    _schedule("GET", _SCHEDULE, "getSchedule", "A schedule.", "read", get, ScheduleView),
    _schedule(
        "GET",
        f"{_SCHEDULE}/next",
        "getScheduleNext",
        "When it fires next.",
        "read",
        get_next,
        bodies.NextAnswer,
        query=(_COUNT,),
    ),
    _schedule(
        "POST",
        f"{_SCHEDULE}/pause",
        "pauseSchedule",
        "Start nothing by it until it is resumed.",
        "write",
        pause,
        ScheduleView,
        logged=True,
    ),
    _schedule(
        "POST",
        f"{_SCHEDULE}/resume",
        "resumeSchedule",
        "Fire again from now on; what was missed stays missed.",
        "write",
        resume,
        ScheduleView,
        logged=True,
    ),
    _schedule(
        "POST",
        f"{_SCHEDULE}/backfill",
        "backfillSchedule",
        "Start what it did not start: moments of the past, each once.",
        "execute",
        backfill,
        Backfill,
        body=BackfillRequest,
        logged=True,
    ),
    _schedule(
        "DELETE",
        _SCHEDULE,
        "deleteSchedule",
        "Forget it. One that a playbook declares comes back when that is registered again.",
        "write",
        delete,
        bodies.DeletedAnswer,
        logged=True,
    ),
)
