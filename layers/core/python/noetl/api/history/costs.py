"""What the steps of an execution cost."""

from __future__ import annotations

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.route import FLAG, ONE, Parameter, Route
from noetl.services.queries.step_costs import CostView, read_costs


def get_cost(deps: ApiDeps, request: Request) -> Answer:
    """Answer what an execution cost until now, by step."""
    execution_id = parse.execution_id(request.params["execution_id"])
    family = parse.flag(request, "family")
    return Answer(200, read_costs(deps.store, deps.programs, execution_id, family=family))


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        f"{ONE}/cost",
        "getExecutionCost",
        "What an execution cost, by step: calls of tools, the time that they took, and what its tasks added to `ctx.cost`.",
        "read",
        get_cost,
        {200: CostView},
        "history",
        query=(Parameter("family", "`true`: also what its sub-executions cost, by playbook.", FLAG),),
        refuses=(404, 429),
    ),
)
