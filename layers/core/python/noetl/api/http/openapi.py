"""The OpenAPI 3.1 document, made from the table of routes and the shapes of bodies."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import msgspec

from noetl.api.browser.diagnostics import API_VERSION
from noetl.api.http import bodies
from noetl.api.http.exchange import JSON, PROBLEM
from noetl.api.table import ROUTES, Route
from noetl.domain import codec
from noetl.domain.text.timestamps import Timestamp
from noetl.domain.workers.command_token import HEADER

TITLE = "NoETL Serverless"
_REF = "#/components/schemas/{name}"
_PART = {"execution_id": {"type": "string", "pattern": "^[0-9]{1,19}$"}}
"""What is known about parts of paths by their name."""
_ABOUT = {
    400: "The request cannot be read: body, cursor, id or parameter.",
    401: "The request is not authenticated.",
    403: "The scope is missing.",
    404: "There is no such thing.",
    409: "It does not fit the present state, or the idempotency key belongs to another request.",
    410: "It was there, and is gone for good.",
    413: "The body is too large.",
    415: "The body is compressed, or no JSON.",
    422: "It can be read, but is not valid; for a playbook, `errors` has every diagnostic.",
    429: "Too many requests wait already; `Retry-After` says when to ask again.",
    503: "A service that this depends on is unavailable; try again.",
}


def document() -> dict[str, Any]:
    """Return the whole document, as JSON values."""
    shapes = _shapes()
    _, components = msgspec.json.schema_components(shapes, schema_hook=_hook, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        path = route.path.replace("+}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": TITLE,
            "version": API_VERSION,
            "description": "Durable YAML playbooks: register them, start executions, follow them. Ids are text. Errors are problem+json.",
        },
        "security": [{"iam": []}, {"jwt": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "iam": {
                    "type": "apiKey",
                    "name": "Authorization",
                    "in": "header",
                    "description": "AWS Signature Version 4 (execute-api).",
                },
                "jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
    }


def committed() -> str:
    """Return the document as it is stored in docs/openapi.json."""
    return json.dumps(document(), indent=2) + "\n"


@cache
def served() -> str:
    """Return the document as the API serves it; made once."""
    return json.dumps(document(), separators=(",", ":"))


def _shapes() -> list[Any]:
    found: list[Any] = [bodies.ProblemAnswer]
    for route in ROUTES:
        found += [shape for shape in (route.body, *route.answers.values()) if shape is not None]
    return list(dict.fromkeys(found))


def _hook(shape: type) -> dict[str, Any]:
    if shape is Timestamp:
        return {"type": "string", "format": "date-time"}
    raise TypeError(f"{shape.__name__} is not JSON")


def _schema(shape: Any) -> Any:
    (schema,), _ = msgspec.json.schema_components([shape], schema_hook=_hook, ref_template=_REF)
    return schema


def _operation(route: Route) -> dict[str, Any]:
    needs = f" Needs the scope `{route.scope}`." if route.scope else ""
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about.partition(". ")[0].rstrip("."),
        "description": f"{route.about}{needs}",
        "tags": [route.tag],
        "responses": _responses(route),
    }
    if route.scope is None:
        operation["security"] = []
    parameters = _parameters(route)
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None or route.any_body:
        operation["requestBody"] = _request_body(route)
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": _PART.get(name, {"type": "string"})}
        for name in re.findall(r"{(\w+)\+?}", route.path)
    ]
    found += [
        {"name": one.name, "in": "query", "description": one.about, "schema": dict(one.schema)}
        for one in route.query
    ]
    if route.keyed:
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "Asking again under the same key is the same request.",
                "schema": {"type": "string", "maxLength": 255},
            }
        )
    if route.of_command:
        found.append(
            {
                "name": HEADER,
                "in": "header",
                "required": True,
                "description": "`command`, as a worker was given it with a command of this execution (reading: of one that belongs to it).",
                "schema": {"type": "string"},
            }
        )
    return found


def _request_body(route: Route) -> dict[str, Any]:
    content: dict[str, Any] = {route.takes: {"schema": {} if route.any_body else _schema(route.body)}}
    if route.yaml:
        content["application/yaml"] = {"schema": {"type": "string"}}
    if route.or_yaml:
        content["application/yaml"] = dict(content[route.takes])
    required = route.takes == JSON and not (
        route.bodiless or _may_be_left_out(route)
    )  # no bytes are bytes, too
    return {"required": required, "content": content}


def _may_be_left_out(route: Route) -> bool:
    """The path names what is meant already, and everything in the body has a default."""
    if "{" not in route.path or route.any_body:
        return False
    try:
        codec.decoder(route.body).decode(b"{}")
    except msgspec.ValidationError:
        return False
    return True


def _responses(route: Route) -> dict[str, Any]:
    found = {
        str(status): {
            "description": "Not ready." if status >= 400 else "As asked.",
            "content": {route.media: {"schema": _schema(shape)}},
        }
        for status, shape in route.answers.items()
    }
    problem = {PROBLEM: {"schema": _schema(bodies.ProblemAnswer)}}
    for status in _refusals(route):
        found.setdefault(str(status), {"description": _ABOUT[status], "content": problem})
    return dict(sorted(found.items()))


def _refusals(route: Route) -> list[int]:
    """Return the statuses with which a route can refuse, from its shape and its own list."""
    found = set(route.refuses)
    if route.endpoint is not None and route.name != "ready":
        found.add(503)
    if route.scope is not None:
        found |= {400, 401, 403, 422}
    if "{" in route.path or route.body is not None:
        found.add(404)
    if route.body is not None or route.any_body:
        found |= {413, 415}
    if route.keyed:
        found.add(409)
    return sorted(found)
