"""Keeping house by hand."""

from __future__ import annotations

import time

from noetl.api import reading
from noetl.api.deps import ApiDeps
from noetl.api.exchange import Answer, Request
from noetl.services.prune import PruneWish
from noetl.services.prune import prune as remove_old

SECONDS = 15.0
"""Longest that one request removes; the answer says whether there is more."""


def prune(deps: ApiDeps, request: Request) -> Answer:
    wish = reading.body(request, deps, PruneWish)
    until = time.monotonic() + SECONDS
    return Answer(200, remove_old(wish, deps.prune, lambda: time.monotonic() < until))
