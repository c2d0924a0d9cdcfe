"""The running system: why executions stand where they stand, and templates against them."""

from __future__ import annotations

from noetl.api import runtime_bodies as bodies
from noetl.api.endpoints import looking
from noetl.api.routes.shape import ONE, Route
from noetl.services.analyze import Analysis

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        f"{ONE}/analyze",
        "analyzeExecution",
        "Explain why an execution is not progressing: what failed, what is stuck or orphaned, what it waits for, and what to try next.",
        "read",
        looking.analyze_execution,
        {200: Analysis},
        "executions",
    ),
    Route(
        "POST",
        "/api/context/render",
        "renderContext",
        "What templates come to against an execution as it stands. Nothing is changed.",
        "read",
        looking.render,
        {200: bodies.RenderedAnswer},
        "executions",
        body=bodies.RenderBody,
        refuses=(409, 410, 429),
    ),
)
