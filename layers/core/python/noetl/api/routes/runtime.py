"""The running system: templates against an execution."""

from __future__ import annotations

from noetl.api import runtime_bodies as bodies
from noetl.api.endpoints import rendering
from noetl.api.routes.shape import Route

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/context/render",
        "renderContext",
        "What templates come to against an execution as it stands. Nothing is changed.",
        "read",
        rendering.render,
        {200: bodies.RenderedAnswer},
        "executions",
        body=bodies.RenderBody,
    ),
)
