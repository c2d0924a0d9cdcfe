"""Events that come in."""

from __future__ import annotations

from noetl.api import runtime_bodies as bodies
from noetl.api.endpoints import events
from noetl.api.routes.shape import Route
from noetl.services.take_events import EventWish


def _report(path: str, name: str) -> Route:
    return Route(
        "POST",
        path,
        name,
        "Report what came of a command, or that it is being run. What a token does not cover is refused, recorded and counted.",
        "worker",
        events.take,
        {202: bodies.EventAnswer},
        "events",
        body=EventWish,
        for_commands=True,
        refuses=(429,),
    )


ROUTES: tuple[Route, ...] = (
    _report("/api/events", "reportEvent"),
    _report("/v1/events", "reportEventV1"),
    Route(
        "POST",
        "/api/events/batch",
        "reportEvents",
        "Report up to 256 events (2 MiB) at once. Accepted when they are durable; the status tells what became of each.",
        "worker",
        events.take_batch,
        {202: bodies.BatchAnswer},
        "events",
        body=bodies.EventsBody,
        keyed=True,
        for_commands=True,
        refuses=(429,),
    ),
    Route(
        "GET",
        "/api/events/batch/{batch_id}/status",
        "getEventBatch",
        "What became of a batch of events.",
        "worker",
        events.get_batch,
        {200: bodies.BatchStatusAnswer},
        "events",
        for_commands=True,
    ),
)
