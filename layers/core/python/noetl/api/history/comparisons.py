"""Two executions side by side."""

from __future__ import annotations

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError
from noetl.api.http.route import Parameter, Route
from noetl.services.queries.compare_executions import Comparison, compare_executions

_ID = {"type": "string", "pattern": "^[0-9]+$"}


def compare(deps: ApiDeps, request: Request) -> Answer:
    """Answer where two executions differ."""
    a, b = (_wanted(request, name) for name in ("a", "b"))
    return Answer(200, compare_executions(deps.store, deps.catalog, a, b, now=deps.clock()))


def _wanted(request: Request, name: str) -> int:
    found = parse.maybe_execution_id(request, name)
    if found is None:
        raise BadRequestError(
            f"the parameter {name} is missing",
            code="invalid_parameter",
            hint="name both executions: ?a=ID&b=ID",
        )
    return found


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/compare",
        "compareExecutions",
        "Two executions side by side: their playbooks, inputs, step runs, context and results, and the first step run that differs.",
        "read",
        compare,
        {200: Comparison},
        "history",
        query=(
            Parameter("a", "An execution id.", _ID),
            Parameter("b", "Another execution id.", _ID),
        ),
        refuses=(404, 429),
    ),
)
