"""Every route: what it is called with, which scope it needs, what it answers. The router, the checks of access, the OpenAPI document and
the tests read this one table."""

from __future__ import annotations

from noetl.api.routes import (
    callbacks,
    catalog,
    control,
    credentials,
    events,
    executions,
    keychain,
    limits,
    maintenance,
    runtime,
    schedules,
    state,
    triggers,
    variables,
    workers,
)
from noetl.api.routes.shape import Endpoint as Endpoint
from noetl.api.routes.shape import Parameter as Parameter
from noetl.api.routes.shape import Route as Route

ROUTES: tuple[Route, ...] = (
    *catalog.ROUTES,
    *executions.ROUTES,
    *control.ROUTES,
    *callbacks.ROUTES,
    *variables.ROUTES,
    *credentials.ROUTES,
    *keychain.ROUTES,
    *limits.ROUTES,
    *schedules.ROUTES,
    *triggers.ROUTES,
    *events.ROUTES,
    *runtime.ROUTES,
    *maintenance.ROUTES,
    *workers.ROUTES,
    *state.ROUTES,
)
