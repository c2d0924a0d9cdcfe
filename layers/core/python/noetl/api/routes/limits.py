"""Limits: what executions share by key, who has it and who waits for it."""

from __future__ import annotations

from noetl.api import runtime_bodies as bodies
from noetl.api.endpoints import limits
from noetl.api.routes.shape import AFTER, Route, limit
from noetl.services.manage_limits import LimitView, LimitWish

_ONE = "/api/limits/{key+}"

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/limits",
        "listLimits",
        "Keys that executions share, in order: the limit, who holds it, who waits and who is next.",
        "read",
        limits.list_all,
        {200: bodies.LimitPage},
        "limits",
        query=(AFTER, limit(100, 500)),
    ),
    Route(
        "GET",
        _ONE,
        "getLimit",
        "One key: its limit, who holds it, who waits and who is next.",
        "read",
        limits.get,
        {200: LimitView},
        "limits",
    ),
    Route(
        "PUT",
        _ONE,
        "setLimit",
        "Say what holds for a key from now on, whatever playbooks ask for: so many at once, so many in a time.",
        "admin",
        limits.put,
        {200: LimitView},
        "limits",
        body=LimitWish,
    ),
    Route(
        "DELETE",
        _ONE,
        "removeLimit",
        "Forget what was said of a key: playbooks' own numbers hold again.",
        "admin",
        limits.delete,
        {200: bodies.LimitRemovedAnswer},
        "limits",
        logged=True,
    ),
)
