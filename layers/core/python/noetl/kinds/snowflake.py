"""Runs SQL on Snowflake through its SQL API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.kinds.rows import combine, summary_of
from noetl.kinds.sql_params import ALIASES, SQL_FIELDS, SqlParams

SPEC = KindSpec(
    name="snowflake",
    summary="Runs SQL on Snowflake, with bound values.",
    pool="io",
    default_timeout=600.0,
    aliases=ALIASES,
    sql_fields=SQL_FIELDS,
    needs_network=True,
    extra="aws",
)

EXAMPLE: dict[str, Any] = {
    "auth": "warehouse",
    "query": "SELECT region, sum(total) AS total FROM orders WHERE day >= %(since)s GROUP BY region",
    "params": {"since": "2026-01-01"},
    "warehouse": "REPORTING",
}

_NAME = r"^[A-Za-z0-9_$.\"-]{1,255}$"


class Params(SqlParams):
    """``query``, or ``table`` with ``args``, in the account that ``auth`` names."""

    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("account", "user", "password", "private_key", "token"),
        "register a credential of type snowflake and name it in `auth`",
    )

    auth: Annotated[str, Field(min_length=1, description="A credential of type snowflake.")]
    database: Annotated[
        str | None, Field(pattern=_NAME, description="Default: of the credential, then of the user.")
    ] = None
    db_schema: Annotated[
        str | None,
        Field(pattern=_NAME, alias="schema", description="Default: of the credential, then of the user."),
    ] = None
    warehouse: Annotated[
        str | None, Field(pattern=_NAME, description="Default: of the credential, then of the user.")
    ] = None
    role: Annotated[
        str | None, Field(pattern=_NAME, description="Default: of the credential, then of the user.")
    ] = None


def run(params: Params, context: TaskContext) -> TaskResult:
    """The last statement's ``{columns, rows, row_count}`` or ``{affected_rows}``; several also give ``results``.

    Each statement is a transaction of its own. Raises TaskError: ``code`` is the number that Snowflake gives (docs/kinds.md has the kinds);
    on a timeout or a cancel the statement is cancelled there.
    """
    from noetl.kinds.snowflake_api import Session

    statements = params.statements(context)
    places = {
        "database": params.database,
        "schema": params.db_schema,
        "warehouse": params.warehouse,
        "role": params.role,
    }
    session = Session(context.credential(params.auth), places, context)
    last: dict[str, Any] = {"affected_rows": 0}
    summaries: list[dict[str, Any]] = []
    for number, statement in enumerate(statements, start=1):
        try:
            last = session.run(statement, number, keep=number == len(statements))
        except TaskError as error:
            if len(statements) > 1 and not params.is_insert:
                error.details.setdefault("statement", number)
            raise
        summaries.append(summary_of(last))
    meta = {"snowflake": {"query_id": session.query_id}}
    if params.is_insert:
        return TaskResult({"affected_rows": sum(one["affected_rows"] for one in summaries)}, meta)
    return TaskResult(combine(last, summaries), meta)
