"""Health, contract, database and figures, as the published client asks for them."""

from __future__ import annotations

from typing import Literal

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.publishing import publish
from noetl.api.http.route import Route
from noetl.api.http.runtime_bodies import WorkersAnswer
from noetl.api.nouns import workers
from noetl.api.nouns.control import change_request
from noetl.domain.errors import NoetlError
from noetl.services.executions import change_execution
from noetl.services.queries.read_execution import find

NEWEST = 1000
"""Executions that the figures are about."""


class ContractAnswer(msgspec.Struct, frozen=True):
    """What a client finds here.

    Requests are authorized as the documentation of the API says; there is no sign-in of a gateway.
    """

    name: Literal["noetl-serverless"]
    api_versions: list[str]
    document: str
    runtime: Literal["distributed"]


class DatabaseAnswer(msgspec.Struct, frozen=True):
    """The condition of the database.

    ``valid``: it can be reached, and has the newest schema. ``checks``: ``ok``, or the code of what is wrong.
    """

    status: Literal["ok", "error"]
    valid: bool
    message: str
    checks: dict[str, str]


class Figures(msgspec.Struct, frozen=True):
    total_executions: int
    successful_executions: int
    failed_executions: int
    cancelled_executions: int
    active_executions: int
    total_playbooks: int


class DashboardAnswer(msgspec.Struct, frozen=True):
    """Counts for a dashboard.

    ``stats``: of the newest ``newest`` executions and playbooks; ``more``: there may be older ones.
    """

    status: Literal["ok"]
    stats: Figures
    newest: int
    more: bool


class VariablesDeletedAnswer(msgspec.Struct, frozen=True):
    execution_id: str
    deleted_count: int
    var_names: list[str]


def contract(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, ContractAnswer("noetl-serverless", ["noetl.io/v2"], "/openapi.json", "distributed"))


def database(deps: ApiDeps, request: Request) -> Answer:
    """Check the database as `/ready` does.

    The schema is brought up to date when a deployment starts.
    """
    checks: dict[str, str] = {}
    for name, check in deps.checks.items():
        if name in ("database", "schema"):
            try:
                check()
                checks[name] = "ok"
            except NoetlError as error:
                checks[name] = error.code
    well = all(found == "ok" for found in checks.values())
    message = "the schema is up to date" if well else f"not usable: {', '.join(sorted(set(checks.values())))}"
    return Answer(200, DatabaseAnswer("ok" if well else "error", well, message, checks))


def dashboard(deps: ApiDeps, request: Request) -> Answer:
    counts = deps.store.status_counts(NEWEST)
    playbooks = len(deps.catalog.entries(limit=NEWEST))
    total = sum(counts.values())
    figures = Figures(
        total,
        counts.get("completed", 0),
        counts.get("failed", 0),
        counts.get("cancelled", 0),
        counts.get("running", 0) + counts.get("paused", 0),
        playbooks,
    )
    return Answer(200, DashboardAnswer("ok", figures, NEWEST, NEWEST in (total, playbooks)))


def delete_variables(deps: ApiDeps, request: Request) -> Answer:
    """Remove every variable of a running execution, each as an event of its own."""
    execution_id = parse.execution_id(request.params["execution_id"])
    find(deps.store, execution_id)
    change_execution.live(deps.store, execution_id, "changed")
    names = [variable.name for variable in deps.variables.variables(execution_id)]
    by = change_request(deps, request, "")
    events = [
        change_execution.delete_variable(
            deps.store, execution_id, msgspec.structs.replace(by, unique=f"{by.unique}\n{name}"), name
        )
        for name in names
    ]
    publish(deps, by.owner, *events)
    return Answer(200, VariablesDeletedAnswer(str(execution_id), len(names), names))


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/runtime/contract",
        "getRuntimeContract",
        "What a client finds at this address: the dialect of playbooks, and the document of every route.",
        None,
        contract,
        {200: ContractAnswer},
        "runtime",
    ),
    Route(
        "GET",
        "/api/db/validate",
        "validateDatabase",
        "Whether the database can be used and has the newest schema.",
        "read",
        database,
        {200: DatabaseAnswer},
        "runtime",
    ),
    Route(
        "POST",
        "/api/db/init",
        "initDatabase",
        "The same as GET /api/db/validate: the schema is brought up to date when a deployment starts, never by a request.",
        "admin",
        database,
        {200: DatabaseAnswer},
        "runtime",
    ),
    Route(
        "GET",
        "/api/dashboard/stats",
        "getDashboardStats",
        "Figures of the newest executions.",
        "read",
        dashboard,
        {200: DashboardAnswer},
        "runtime",
    ),
    Route(
        "GET",
        "/api/worker/pool/status",
        "getWorkerPoolStatus",
        "The same as GET /api/worker/pools.",
        "read",
        workers.list_all,
        {200: WorkersAnswer},
        "workers",
    ),
    Route(
        "DELETE",
        "/api/vars/{execution_id}",
        "deleteVariables",
        "Remove every variable of a running execution.",
        "execute",
        delete_variables,
        {200: VariablesDeletedAnswer},
        "variables",
        refuses=(409,),
    ),
)
