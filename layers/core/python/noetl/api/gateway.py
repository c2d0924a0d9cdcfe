"""The routes behind API Gateway (HTTP API, payload 2.0): Powertools finds the route, the rest is ours."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.event_handler.api_gateway import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError as NoRouteError

from noetl.api.access import principal_of
from noetl.api.dispatch import Api, answer, unknown_route
from noetl.api.exchange import Answer, Principal, Request
from noetl.api.table import ROUTES, Route

Event = dict[str, Any]


def make_resolver(api: Api) -> Callable[[Event, Any], dict[str, Any]]:
    """``(event, context) -> response`` for all routes."""
    resolver = APIGatewayHttpResolver()
    for route in ROUTES:
        resolver.route(_rule(route.path), method=route.method)(_handler(api, resolver, route))

    @resolver.not_found
    def no_route(error: NoRouteError) -> Response[str]:
        return _response(unknown_route(api, _request(resolver, "")))

    def resolve(event: Event, context: Any) -> dict[str, Any]:
        return resolver.resolve(event, context)

    return resolve


def _rule(path: str) -> str:
    """``{name}`` → one segment; ``{name+}`` → everything that is left (unnamed: Powertools has no name for it)."""
    return re.sub(r"{(\w+)}", r"<\1>", re.sub(r"{\w+\+}", ".+", path))


def _handler(api: Api, resolver: APIGatewayHttpResolver, route: Route) -> Callable[..., Response[str]]:
    def handle(**params: str) -> Response[str]:
        request = _request(resolver, route.path, params)
        return _response(answer(api, route, request, _principal(api, resolver)))

    return handle


def _request(
    resolver: APIGatewayHttpResolver, route: str, params: Mapping[str, str] | None = None
) -> Request:
    event = resolver.current_event
    raw: Event = event.raw_event
    found = {name: unquote(value) for name, value in (params or {}).items()}
    rest = re.fullmatch(r"(.*){(\w+)\+}", route)
    if rest:
        found[rest[2]] = unquote(event.path.removeprefix(rest[1]))
    headers = {str(name).lower(): str(value) for name, value in (raw.get("headers") or {}).items()}
    return Request(
        method=event.http_method.upper(),
        path=event.path,
        params=found,
        query=raw.get("queryStringParameters") or {},
        headers=headers,
        body=_body(raw),
        request_id=str((raw.get("requestContext") or {}).get("requestId") or ""),
    )


def _body(raw: Event) -> bytes:
    """The bytes that were sent; of text that cannot be base64, what is there (it will not be JSON either)."""
    text = raw.get("body") or ""
    if raw.get("isBase64Encoded"):
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return str(text).encode("utf-8", "surrogatepass")
    return str(text).encode("utf-8", "surrogatepass")


def _principal(api: Api, resolver: APIGatewayHttpResolver) -> Principal | None:
    context = resolver.current_event.raw_event.get("requestContext") or {}
    return principal_of(api.auth, context.get("authorizer") or {}, api.grants)


def _response(found: Answer) -> Response[str]:
    return Response(
        found.status, content_type=found.content_type, body=found.body(), headers=dict(found.headers)
    )
