"""How the deployment itself is doing.

How the deployment itself is doing.
"""

from __future__ import annotations

from typing import Any

from noetl.api.deps import ApiDeps
from noetl.api.http import bodies, runtime_bodies
from noetl.api.http.bodies import HealthAnswer, ReadyAnswer
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.route import Route
from noetl.api.http.runtime_bodies import QueuesAnswer
from noetl.domain.errors import NoetlError, NotFoundError

METRICS = "text/plain; version=0.0.4; charset=utf-8"


def get_queues(deps: ApiDeps, request: Request) -> Answer:
    """Return the counts of queues, and the store's commands by pool with their holders."""
    found = deps.inspection.outstanding()
    answer = QueuesAnswer(
        list(deps.gauges()), list(found.pools), list(found.leases), found.events, found.timers, found.partly
    )
    return Answer(200, answer)


def get_metrics(deps: ApiDeps, request: Request) -> Answer:
    if deps.metrics is None:
        raise NotFoundError(
            "this deployment keeps its metrics in CloudWatch",
            code="metrics_elsewhere",
            hint="look at its dashboard, or ask GET /api/queue",
        )
    return Answer(200, text=deps.metrics(), content_type=METRICS)


def ready(deps: ApiDeps, request: Request) -> Answer:
    """Answer 503 while a dependency is unavailable.

    Every caller may ask, so it shows codes alone.
    """
    checks = {}
    for name, check in deps.checks.items():
        try:
            check()
            checks[name] = "ok"
        except NoetlError as error:
            checks[name] = error.code
            deps.log(f"not ready: {name}: {error}")
    well = all(found == "ok" for found in checks.values())
    headers = {} if well else {"Retry-After": "5"}
    return Answer(
        200 if well else 503, ReadyAnswer("ready" if well else "not_ready", checks), headers=headers
    )


def healthy(deployment: dict[str, str]) -> Answer:
    """This function runs; nothing else is looked at."""
    return Answer(200, HealthAnswer("ok", deployment))


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/queue",
        "getQueues",
        "How full the queues are, how long the oldest command has waited, by pool, and who has leased what.",
        "read",
        get_queues,
        {200: runtime_bodies.QueuesAnswer},
        "state",
    ),
    Route(
        "GET",
        "/metrics",
        "getMetrics",
        "This server in the text format of Prometheus. A deployment on AWS measures with CloudWatch instead: 404.",
        "read",
        get_metrics,
        {200: str},
        "state",
        media=METRICS,
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
        "/api/health",
        "apiHealth",
        "The published spelling of GET /health.",
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
        ready,
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
