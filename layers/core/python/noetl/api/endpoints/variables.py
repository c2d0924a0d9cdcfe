"""Variables of an execution: the rows, and changing them as a context patch that is durable before it is answered."""

from __future__ import annotations

from datetime import UTC, datetime

from noetl.api import reading
from noetl.api.bodies import (
    VariableAnswer,
    VariableDeletedAnswer,
    VariablesAnswer,
    VariablesBody,
    VariablesSetAnswer,
    VariableView,
)
from noetl.api.deps import ApiDeps
from noetl.api.endpoints.control import asked_by
from noetl.api.endpoints.publishing import publish
from noetl.api.exchange import Answer, Request
from noetl.domain.errors import NotFoundError
from noetl.domain.variables import Variable
from noetl.services import change_execution
from noetl.services.read_execution import find


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
    asked = reading.body(request, deps, VariablesBody)
    execution_id, by = _id(request), asked_by(deps, request, asked.reason)
    event = change_execution.set_variables(
        deps.store,
        execution_id,
        by,
        asked.variables,
        var_type=asked.var_type,
        source_step=asked.source_step or "",
    )
    publish(deps, by.owner, event)
    names = list(asked.variables)
    return Answer(200, VariablesSetAnswer(str(execution_id), len(names), names))


def delete_variable(deps: ApiDeps, request: Request) -> Answer:
    execution_id, name = _id(request), request.params["name"]
    change_execution.live(deps.store, execution_id, "changed")
    if not any(variable.name == name for variable in deps.variables.variables(execution_id)):
        raise _unknown(deps, execution_id, name)
    by = asked_by(deps, request, "")
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
    return reading.execution_id(request.params["execution_id"])
