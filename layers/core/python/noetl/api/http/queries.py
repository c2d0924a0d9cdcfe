"""The check of query parameters: a misspelled filter would return an unfiltered list."""

from __future__ import annotations

from noetl.api.http.exchange import Request
from noetl.api.http.route import Route
from noetl.domain.errors import InvalidInputError
from noetl.dsl.diagnostics import did_you_mean

_SIGNED = "x-amz-"
"""Begins what an address carries that AWS has signed: the gateway reads it."""
_SHOWN = 80


def check_query(route: Route, request: Request) -> None:
    """Raise InvalidInputError(code="parameter_unknown") for a parameter unknown to the route."""
    if route.any_query:
        return
    known = [one.name for one in route.query]
    for name in request.query:
        if name in known or name.lower().startswith(_SIGNED):
            continue
        takes = f"it takes {', '.join(known)}" if known else "it takes none"
        raise InvalidInputError(
            f"{route.method} {route.path} has no parameter {name[:_SHOWN]!r}",
            code="parameter_unknown",
            hint=did_you_mean(name, known, takes),
            details={"parameter": name[:_SHOWN]},
        )
