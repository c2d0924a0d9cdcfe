"""Variables of executions."""

from __future__ import annotations

from noetl.api import bodies
from noetl.api.endpoints import variables
from noetl.api.routes.shape import Route

_VARS = "/api/vars/{execution_id}"

ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        _VARS,
        "listVariables",
        "Every variable of an execution; reading them here counts nothing.",
        "read",
        variables.list_variables,
        {200: bodies.VariablesAnswer},
        "variables",
    ),
    Route(
        "POST",
        _VARS,
        "setVariables",
        "Set variables of a running execution: readable at once, and seen by its steps as `vars` and `ctx`.",
        "execute",
        variables.set_variables,
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
        variables.get_variable,
        {200: bodies.VariableAnswer},
        "variables",
    ),
    Route(
        "DELETE",
        f"{_VARS}/{{name}}",
        "deleteVariable",
        "Remove a variable of a running execution, its row and what its steps see.",
        "execute",
        variables.delete_variable,
        {200: bodies.VariableDeletedAnswer},
        "variables",
        refuses=(409,),
    ),
)
