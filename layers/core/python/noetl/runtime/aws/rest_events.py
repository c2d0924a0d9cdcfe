"""Events of a REST API (payload format 1.0), or of an emulator, as an HTTP API (2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Event = dict[str, Any]


def is_of_rest(event: Event) -> bool:
    """Check whether a REST API has sent the event."""
    return "httpMethod" in event


def as_http_api(event: Event) -> Event:
    """Return an event of a REST API in the form of an HTTP API."""
    about = event.get("requestContext") or {}
    caller = (about.get("identity") or {}).get("userArn")
    return {
        "version": "2.0",
        "rawPath": event.get("path") or "/",
        "headers": _joined(event.get("multiValueHeaders"), event.get("headers")),
        "queryStringParameters": _joined(
            event.get("multiValueQueryStringParameters"), event.get("queryStringParameters")
        ),
        "body": event.get("body"),
        "isBase64Encoded": event.get("isBase64Encoded", False),
        "requestContext": {
            "http": {"method": event["httpMethod"]},
            "requestId": about.get("requestId"),
            # The path of such an event has no stage in it.
            "stage": "$default",
            "base": str(about.get("path") or "").removesuffix(str(event.get("path") or "/")),
            "authorizer": {"iam": {"userArn": caller}} if caller else {},
        },
    }


def at_emulator(event: Event, endpoint: str) -> Event:
    """Add the part of the address in front of the path of a request to an emulator.

    ``endpoint``: of the emulator; empty at AWS.
    """
    about = event.get("requestContext") or {}
    if not endpoint or endpoint.partition("://")[2].rstrip("/") != _host(event):
        return event
    return event | {"requestContext": about | {"base": f"/_aws/execute-api/{about.get('apiId')}"}}


def _host(event: Event) -> str:
    headers = event.get("headers") or {}
    return next((str(value) for name, value in headers.items() if name.lower() == "host"), "")


def as_rest_answer(answer: Event) -> Event:
    """Return an answer without what a REST API refuses."""
    return {name: value for name, value in answer.items() if name != "cookies"}


def _joined(many: Mapping[str, Any] | None, one: Mapping[str, Any] | None) -> dict[str, str]:
    """Values of a repeated name, joined by commas as an HTTP API does."""
    if many:
        return {name: ",".join(map(str, values)) for name, values in many.items()}
    return {name: str(value) for name, value in (one or {}).items()}
