"""Limits by key over the API.

Limits: what executions share by key, who has it and who waits for it.
"""

from __future__ import annotations

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http import runtime_bodies as bodies
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.route import AFTER, Route, limit
from noetl.api.http.runtime_bodies import LimitPage, LimitRemovedAnswer
from noetl.services.queries import limits
from noetl.services.queries.limits import LimitRequest, LimitView

_PAGE, _MOST = 100, 500


def list_all(deps: ApiDeps, request: Request) -> Answer:
    limit = parse.limit(request, _PAGE, _MOST)
    found = limits.list_limits(deps.store, limit=limit, after=parse.text_cursor(request))
    more = parse.cursor_text(found[-1].key) if len(found) == limit else None
    return Answer(200, LimitPage(found, more))


def get(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, limits.find_limit(deps.store, request.params["key"]))


def put(deps: ApiDeps, request: Request) -> Answer:
    """Set the limit of a key; it overrides what playbooks declare."""
    body = parse.body(request, deps, LimitRequest)
    made = limits.set_limit(deps.store, request.params["key"], body, request.principal.name)
    return Answer(200, made)


def delete(deps: ApiDeps, request: Request) -> Answer:
    key = request.params["key"]
    limits.remove_limit(deps.store, key)
    return Answer(200, LimitRemovedAnswer(key, True))


_ONE = "/api/limits/{key+}"

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/limits",
        "listLimits",
        "Keys that executions share, in order: the limit, who holds it, who waits and who is next.",
        "read",
        list_all,
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
        get,
        {200: LimitView},
        "limits",
    ),
    Route(
        "PUT",
        _ONE,
        "setLimit",
        "Set the limit of a key: how many at once, and how many in a time. It overrides what playbooks declare.",
        "admin",
        put,
        {200: LimitView},
        "limits",
        body=LimitRequest,
    ),
    Route(
        "DELETE",
        _ONE,
        "removeLimit",
        "Forget what was said of a key: playbooks' own numbers hold again.",
        "admin",
        delete,
        {200: bodies.LimitRemovedAnswer},
        "limits",
        logged=True,
    ),
)
