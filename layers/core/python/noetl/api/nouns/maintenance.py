"""Keeping house by hand.

Keeping house.
"""

from __future__ import annotations

import time

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.route import Route
from noetl.services.results.prune import Pruned, PruneRequest
from noetl.services.results.prune import prune as remove_old

SECONDS = 15.0
"""Longest that one request removes; the answer says whether there is more."""


def prune(deps: ApiDeps, request: Request) -> Answer:
    body = parse.body(request, deps, PruneRequest)
    until = time.monotonic() + SECONDS
    return Answer(200, remove_old(body, deps.prune, lambda: time.monotonic() < until))


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/api/admin/prune",
        "prune",
        "Remove executions that ended long ago, with all that belongs to them; `status` partly: there is more, ask again.",
        "admin",
        prune,
        {200: Pruned},
        "runtime",
        body=PruneRequest,
        logged=True,
    ),
)
