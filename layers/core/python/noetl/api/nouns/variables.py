"""Routes of variables: rows of an execution, changed by a context patch.

The patch is durable before the answer.
"""

from __future__ import annotations

from datetime import UTC, datetime

from noetl.api.deps import ApiDeps
from noetl.api.http import bodies, parse
from noetl.api.http.bodies import (
    VariableAnswer,
    VariableDeletedAnswer,
    VariablesAnswer,
    VariablesBody,
    VariablesSetAnswer,
    VariableView,
)
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.publishing import publish
from noetl.api.http.route import Route
from noetl.api.nouns.control import change_request
from noetl.domain.errors import NotFoundError
from noetl.domain.variables import Variable
from noetl.services.executions import change_execution
from noetl.services.queries.read_execution import find


def list_variables(deps: ApiDeps, request: Request) -> Answer:
    """Counts nothing."""
    execution_id = _id(request)
    found = deps.variables.variables(execution_id)
    if not found:
        find(deps.store, execution_id)
    shown = {variable.name: _view(variable) for variable in found}
    return Answer(200, VariablesAnswer(str(execution_id), shown, len(shown)))


def get_variable(deps: ApiDeps, request: Request) -> Answer:
    """Counts this read."""
    execution_id, name = _id(request), request.params["name"]
    found = deps.variables.read_variable(execution_id, name)
    if found is None:
        raise _unknown(deps, execution_id, name)
    view = _view(found)
    return Answer(
        200,
        VariableAnswer(
            str(execution_id),
            name,
            view.value,
            view.type,
            view.source_step,
            view.created_at,
            view.accessed_at,
            view.access_count,
        ),
    )


def set_variables(deps: ApiDeps, request: Request) -> Answer:
    body = parse.body(request, deps, VariablesBody)
    execution_id, by = _id(request), change_request(deps, request, body.reason)
    event = change_execution.set_variables(
        deps.store,
        execution_id,
        by,
        body.variables,
        var_type=body.var_type,
        source_step=body.source_step or "",
    )
    publish(deps, by.owner, event)
    names = list(body.variables)
    return Answer(200, VariablesSetAnswer(str(execution_id), len(names), names))


def delete_variable(deps: ApiDeps, request: Request) -> Answer:
    execution_id, name = _id(request), request.params["name"]
    change_execution.live(deps.store, execution_id, "changed")
    if not any(variable.name == name for variable in deps.variables.variables(execution_id)):
        raise _unknown(deps, execution_id, name)
    by = change_request(deps, request, "")
    event = change_execution.delete_variable(deps.store, execution_id, by, name)
    publish(deps, by.owner, event)
    return Answer(200, VariableDeletedAnswer(str(execution_id), name, True))


def _unknown(deps: ApiDeps, execution_id: int, name: str) -> NotFoundError:
    """Raises NotFoundError itself when there is no such execution."""
    find(deps.store, execution_id)
    return NotFoundError(
        f"execution {execution_id} has no variable {name[:80]!r}",
        code="variable_not_found",
        hint=f"GET /api/vars/{execution_id} lists them",
    )


def _view(variable: Variable) -> VariableView:
    return VariableView(
        variable.value,
        variable.type,
        variable.source_step,
        _moment(variable.created_at),
        _moment(variable.accessed_at),
        variable.access_count,
    )


def _moment(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z")


def _id(request: Request) -> int:
    return parse.execution_id(request.params["execution_id"])


_VARS = "/api/vars/{execution_id}"

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        _VARS,
        "listVariables",
        "Every variable of an execution; reading them here counts nothing.",
        "read",
        list_variables,
        {200: bodies.VariablesAnswer},
        "variables",
    ),
    Route(
        "POST",
        _VARS,
        "setVariables",
        "Set variables of a running execution: readable at once, and seen by its steps as `vars` and `ctx`.",
        "execute",
        set_variables,
        {200: bodies.VariablesSetAnswer},
        "variables",
        body=bodies.VariablesBody,
        keyed=True,
    ),
    Route(
        "GET",
        f"{_VARS}/{{name}}",
        "getVariable",
        "One variable. The read is counted.",
        "read",
        get_variable,
        {200: bodies.VariableAnswer},
        "variables",
    ),
    Route(
        "DELETE",
        f"{_VARS}/{{name}}",
        "deleteVariable",
        "Remove a variable of a running execution, its row and what its steps see.",
        "execute",
        delete_variable,
        {200: bodies.VariableDeletedAnswer},
        "variables",
        refuses=(409,),
    ),
)
