"""What starts by itself."""

from __future__ import annotations

from typing import Any

from noetl.api import bodies
from noetl.api.endpoints import schedules
from noetl.api.routes.shape import AFTER, Endpoint, Parameter, Route, limit
from noetl.services.backfill import Backfill, BackfillWish
from noetl.services.manage_schedules import MAX_NEXT, ScheduleView, ScheduleWish

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
        schedules.put,
        {201: ScheduleView, 200: ScheduleView},
        "schedules",
        body=ScheduleWish,
        logged=True,
        refuses=(409, 429),
    ),
    _schedule(
        "GET",
        "/api/schedules",
        "listSchedules",
        "What starts by itself, by name.",
        "read",
        schedules.list_schedules,
        bodies.SchedulePage,
        query=(AFTER, limit(100, 500)),
    ),
    _schedule("GET", _SCHEDULE, "getSchedule", "A schedule.", "read", schedules.get, ScheduleView),
    _schedule(
        "GET",
        f"{_SCHEDULE}/next",
        "getScheduleNext",
        "When it fires next.",
        "read",
        schedules.get_next,
        bodies.NextAnswer,
        query=(_COUNT,),
    ),
    _schedule(
        "POST",
        f"{_SCHEDULE}/pause",
        "pauseSchedule",
        "Start nothing by it until it is resumed.",
        "write",
        schedules.pause,
        ScheduleView,
        logged=True,
    ),
    _schedule(
        "POST",
        f"{_SCHEDULE}/resume",
        "resumeSchedule",
        "Fire again from now on; what was missed stays missed.",
        "write",
        schedules.resume,
        ScheduleView,
        logged=True,
    ),
    _schedule(
        "POST",
        f"{_SCHEDULE}/backfill",
        "backfillSchedule",
        "Start what it did not start: moments of the past, each once.",
        "execute",
        schedules.backfill,
        Backfill,
        body=BackfillWish,
        logged=True,
    ),
    _schedule(
        "DELETE",
        _SCHEDULE,
        "deleteSchedule",
        "Forget it. One that a playbook declares comes back when that is registered again.",
        "write",
        schedules.delete,
        bodies.DeletedAnswer,
        logged=True,
    ),
)
