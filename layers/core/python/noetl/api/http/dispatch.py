"""The dispatch of requests.

Authenticate, check the scope, call the endpoint, answer errors.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from noetl.api.deps import MAX_ANSWER, ApiDeps
from noetl.api.http.access import check_scope
from noetl.api.http.exchange import Answer, Principal, Request
from noetl.api.http.problems import MethodError, problem
from noetl.api.http.queries import check_query
from noetl.api.http.routing import Router
from noetl.api.nouns.executions import escaped_size
from noetl.api.nouns.state import healthy
from noetl.api.published.declined import find_declined
from noetl.api.table import ROUTES, Endpoint, Route
from noetl.domain import codec
from noetl.domain.callbacks import shown_path
from noetl.domain.errors import InfrastructureError, NotFoundError
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import ANSWER_BYTES
from noetl.domain.workers.command_token import HEADER

LOST = ("outcome_unknown", "database_unreachable")
"""Codes of errors that a new connection may cure. Every endpoint may be run twice: ids come from the request."""
REQUEST_ID = "X-Request-Id"
_QUOTED = frozenset(' "()')
_ROUTER = Router(ROUTES)


@dataclass(frozen=True, slots=True)
class Api:
    """The API: authentication, scopes and endpoints.

    ``open``: what the routes need, made on first use (health needs none of it). ``auth``: iam, jwt or none; ``grants``: pattern of an ARN →
    scopes; ``workers``: patterns of the ARNs of this deployment's workers, which have no scope but what their commands' tokens say.
    """

    open: Callable[[], ApiDeps]
    auth: str = "iam"
    grants: Mapping[str, str] = field(default_factory=dict)
    deployment: Mapping[str, str] = field(default_factory=dict)
    log: Callable[[str], None] = lambda line: None
    workers: tuple[str, ...] = ()


def answer(api: Api, route: Route, request: Request, principal: Principal | None) -> Answer:
    """Answer a request of a known route. Never raises: an error becomes a problem."""
    try:
        shown = route.for_commands and principal is not None and HEADER.lower() in request.headers
        request = replace(request, principal=check_scope(principal, None if shown else route.scope))
        if route.scope is not None:
            check_query(route, request)
        found = _run(api, route, request)
        _check_size(found)
        if route.logged:
            api.log(_audit_line(route, request, found))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # A panic of a compiled library and sys.exit() are no Exceptions; they end this request only.
        found = _refused(api, request, error)
    return replace(found, headers={**found.headers, REQUEST_ID: request.request_id})


def resolve(api: Api, request: Request, principal: Principal | None) -> Answer:
    """Answer a request from any transport. Never raises.

    HEAD is answered as GET; the transport leaves the content out.
    """
    found = _ROUTER.find("GET" if request.method == "HEAD" else request.method, request.path)
    if found is None:
        return _unknown_route(api, request)
    route, params = found
    return answer(api, route, replace(request, params=params), principal)


def is_open(request: Request) -> bool:
    """Return whether the route needs no scope.

    It is public, or a secret in its address authorises the request.
    """
    found = _ROUTER.find("GET" if request.method == "HEAD" else request.method, request.path)
    return found is not None and found[0].scope is None


def _unknown_route(api: Api, request: Request) -> Answer:
    """Answer 404, or 405 where other methods would do.

    A declined route of the original server is answered with the reason. OPTIONS is answered with the methods; there is nothing for pages of
    other sites (no CORS).
    """
    allowed = _allowed(request.path)
    if allowed and request.method == "OPTIONS":
        return Answer(204, text="", headers={"Allow": ", ".join(allowed), REQUEST_ID: request.request_id})
    error: Exception
    if allowed:
        error = MethodError(
            f"{request.path[:200]} has no {request.method}",
            hint=f"it has {', '.join(allowed)}",
            details={"allow": allowed},
        )
    elif declined := find_declined(request.path):
        error = NotFoundError(
            f"{request.path[:200]} is declined: {declined.because}",
            code="route_declined",
            hint=declined.instead,
        )
    else:
        error = NotFoundError(
            f"there is nothing at {request.path[:200]}", code="route_not_found", hint="see /openapi.json"
        )
    found = _refused(api, request, error)
    return replace(found, headers={REQUEST_ID: request.request_id, **found.headers})


def _allowed(path: str) -> list[str]:
    known = _ROUTER.methods(path)
    return [*known, *(["HEAD"] if "GET" in known else []), "OPTIONS"] if known else []


def _run(api: Api, route: Route, request: Request) -> Answer:
    if route.endpoint is None:
        return _plain(api, route)
    deps = api.open()
    with deps.long_work.request():
        return _call(api, deps, route.endpoint, request)


def _call(api: Api, deps: ApiDeps, endpoint: Endpoint, request: Request) -> Answer:
    try:
        return endpoint(deps, request)
    except InfrastructureError as error:
        if error.code not in LOST:
            raise
        api.log(f"trying once more with a new connection: {error}")
        deps.reconnect()
        return endpoint(deps, replace(request, again=True))


def _plain(api: Api, route: Route) -> Answer:
    if route.name in ("health", "apiHealth"):
        return healthy(dict(api.deployment))
    from noetl.api.http.openapi import served

    return Answer(200, text=served())


def _audit_line(route: Route, request: Request, found: Answer) -> str:
    """Who did what, in one line.

    Texts of the caller with spaces are quoted, so that none reads like another line.
    """
    what = getattr(found.value, "catalog_id", None) or getattr(found.value, "name", None) or request.path
    who, what, request_id = map(_word, (request.principal.name, str(what), request.request_id))
    return f"{who} did {route.name}: {found.status} {what} (request {request_id})"


def _word(text: str) -> str:
    return codec.encode(text).decode() if any(char in _QUOTED for char in text) else text


def _check_size(found: Answer) -> None:
    if found.content is not None:
        return
    text = found.body()
    if len(text) > MAX_ANSWER // 6 and (size := escaped_size(text)) > MAX_ANSWER:
        remedy = "ask for a smaller page"
        raise exceeded(ANSWER_BYTES, size, "the answer", code="answer_too_large", remedy=remedy)


def _refused(api: Api, request: Request, error: BaseException) -> Answer:
    found = problem(error, request_id=request.request_id, instance=shown_path(request.path))
    if found.status == 500:
        where = shown_path(request.path)
        api.log(f"{request.method} {where} failed: {''.join(traceback.format_exception(error))}")
    return found
