"""How the deployment itself is doing."""

from __future__ import annotations

from typing import Any

from noetl.api import bodies, runtime_bodies
from noetl.api.endpoints import state
from noetl.api.routes.shape import Route

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/queue",
        "getQueues",
        "How full the queues are, how long the oldest command has waited, by pool, and who has leased what.",
        "read",
        state.get_queues,
        {200: runtime_bodies.QueuesAnswer},
        "state",
    ),
    Route(
        "GET",
        "/metrics",
        "getMetrics",
        "This server in the text format of Prometheus. A deployment on AWS measures with CloudWatch instead: 404.",
        "read",
        state.get_metrics,
        {200: str},
        "state",
        media=state.METRICS,
        refuses=(404,),
    ),
    Route(
        "GET",
        "/health",
        "health",
        "Whether this function runs. The database is not asked.",
        None,
        None,
        {200: bodies.HealthAnswer},
        "state",
    ),
    Route(
        "GET",
        "/ready",
        "ready",
        "Whether everything a request needs can be reached, and the database is migrated.",
        None,
        state.ready,
        {200: bodies.ReadyAnswer, 503: bodies.ReadyAnswer},
        "state",
    ),
    Route(
        "GET",
        "/openapi.json",
        "openapi",
        "This document.",
        None,
        None,
        {200: dict[str, Any]},
        "state",
    ),
)
