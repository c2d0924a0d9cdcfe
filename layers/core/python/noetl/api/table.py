"""Every route: what it is called with, which scope it needs, what it answers.

The router, the checks of access, the OpenAPI document and the tests read this one table.
"""

from __future__ import annotations

from noetl.api.browser import diagnostics, saved_views, sessions, tokens
from noetl.api.history import comparisons, costs, figures, moments, sql
from noetl.api.http.route import Endpoint as Endpoint
from noetl.api.http.route import Parameter as Parameter
from noetl.api.http.route import Route as Route
from noetl.api.nouns import (
    callbacks,
    catalog,
    changes,
    control,
    credentials,
    dead_letters,
    events,
    execution_routes,
    keychain,
    limits,
    maintenance,
    migrations,
    playbook_checks,
    playbook_tests,
    runtime,
    schedules,
    state,
    triggers,
    variables,
    workers,
)
from noetl.api.published import ROUTES as PUBLISHED

ROUTES: tuple[Route, ...] = (
    *catalog.ROUTES,
    *migrations.ROUTES,
    *playbook_checks.ROUTES,
    *playbook_tests.ROUTES,
    *execution_routes.ROUTES,
    *control.ROUTES,
    *callbacks.ROUTES,
    *variables.ROUTES,
    *credentials.ROUTES,
    *keychain.ROUTES,
    *limits.ROUTES,
    *schedules.ROUTES,
    *triggers.ROUTES,
    *events.ROUTES,
    *moments.ROUTES,
    *comparisons.ROUTES,
    *costs.ROUTES,
    *figures.ROUTES,
    *sql.ROUTES,
    *saved_views.ROUTES,
    *runtime.ROUTES,
    *maintenance.ROUTES,
    *dead_letters.ROUTES,
    *workers.ROUTES,
    *changes.ROUTES,
    *sessions.ROUTES,
    *tokens.ROUTES,
    *diagnostics.ROUTES,
    *state.ROUTES,
    *PUBLISHED,
)
