"""Keeping house."""

from __future__ import annotations

from noetl.api.endpoints import maintenance
from noetl.api.routes.shape import Route
from noetl.services.prune import Pruned, PruneWish

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/admin/prune",
        "prune",
        "Remove executions that ended long ago, with all that belongs to them; `status` partly: there is more, ask again.",
        "admin",
        maintenance.prune,
        {200: Pruned},
        "runtime",
        body=PruneWish,
        logged=True,
    ),
)
