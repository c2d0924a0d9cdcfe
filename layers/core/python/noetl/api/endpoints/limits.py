"""Limits by key over the API."""

from __future__ import annotations

from noetl.api import reading
from noetl.api.deps import ApiDeps
from noetl.api.exchange import Answer, Request
from noetl.api.runtime_bodies import LimitPage, LimitRemovedAnswer
from noetl.services import manage_limits
from noetl.services.manage_limits import LimitWish

_PAGE, _MOST = 100, 500


def list_all(deps: ApiDeps, request: Request) -> Answer:
    limit = reading.limit(request, _PAGE, _MOST)
    found = manage_limits.list_limits(deps.store, limit=limit, after=reading.text_cursor(request))
    more = reading.cursor_text(found[-1].key) if len(found) == limit else None
    return Answer(200, LimitPage(found, more))


def get(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, manage_limits.find_limit(deps.store, request.params["key"]))


def put(deps: ApiDeps, request: Request) -> Answer:
    """Holds from now on, whatever playbooks say."""
    wish = reading.body(request, deps, LimitWish)
    made = manage_limits.set_limit(deps.store, request.params["key"], wish, request.principal.name)
    return Answer(200, made)


def delete(deps: ApiDeps, request: Request) -> Answer:
    key = request.params["key"]
    manage_limits.remove_limit(deps.store, key)
    return Answer(200, LimitRemovedAnswer(key, True))
