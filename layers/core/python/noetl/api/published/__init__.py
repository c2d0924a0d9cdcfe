"""Routes and shapes of the published client, behind the same scopes (ADR 69)."""

from __future__ import annotations

from noetl.api.http.route import Route
from noetl.api.published import catalog, executions, platform

ROUTES: tuple[Route, ...] = (*catalog.ROUTES, *executions.ROUTES, *platform.ROUTES)
