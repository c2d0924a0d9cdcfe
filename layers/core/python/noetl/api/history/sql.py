"""Read-only SQL over history."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.route import Route
from noetl.domain.errors import InvalidInputError
from noetl.ports.history_sql import SqlColumn, SqlTable

DEFAULT_ROWS = 1_000


class SqlBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``sql``: one statement that reads. ``limit``: most rows of the answer, up to 10,000."""

    sql: str
    limit: int = DEFAULT_ROWS


class SqlView(msgspec.Struct, frozen=True):
    """A view that queries read."""

    name: str
    columns: list[SqlColumn]


class SqlViewsAnswer(msgspec.Struct, frozen=True):
    """``available``: whether this deployment has a role that reads them."""

    available: bool
    views: list[SqlView]


class SqlAnswer(msgspec.Struct, frozen=True):
    """Whole numbers that do not fit a double are text.

    ``truncated``: there are more rows than the limits of rows or bytes.
    """

    columns: list[SqlColumn]
    rows: list[list[Any]]
    truncated: bool
    duration_ms: int


def list_views(deps: ApiDeps, request: Request) -> Answer:
    """Answer the views with their columns."""
    from noetl.services.history.run_sql import VIEWS  # the lexer: loaded by who needs it

    views = [SqlView(name, [SqlColumn(*one) for one in columns.items()]) for name, columns in VIEWS.items()]
    return Answer(200, SqlViewsAnswer(deps.history_sql is not None, views))


def query(deps: ApiDeps, request: Request) -> Answer:
    """Answer the rows of one query."""
    from noetl.services.history.run_sql import run_sql  # the lexer: loaded by who needs it

    body = parse.body(request, deps, SqlBody)
    if body.limit < 1:
        raise InvalidInputError("limit is below 1", code="body_invalid", hint="ask for one row at least")
    begun = time.monotonic()
    found: SqlTable = run_sql(deps.history_sql, body.sql, body.limit)
    took = round((time.monotonic() - begun) * 1000)
    return Answer(200, SqlAnswer(found.columns, found.rows, found.truncated, took))


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/sql",
        "listSqlViews",
        "The views that queries read, with the types of their columns.",
        "read",
        list_views,
        {200: SqlViewsAnswer},
        "history",
    ),
    Route(
        "POST",
        "/api/sql",
        "querySql",
        "Run one SQL query over the views of history. It reads only; time, rows and bytes have limits.",
        "read",
        query,
        {200: SqlAnswer},
        "history",
        body=SqlBody,
        refuses=(404, 429),
    ),
)
