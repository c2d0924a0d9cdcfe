"""Runs SQL on Snowflake through its SQL API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, ParamProblem, TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import PollRequest
from noetl.kinds.rows.database import combine, summary_of
from noetl.kinds.support.sql_params import ALIASES, SQL_FIELDS, SQL_RESULT_FIELDS, SqlParams, list_problems

SPEC = KindSpec(
    name="snowflake",
    summary="Runs SQL on Snowflake, with bound values.",
    pool="io",
    default_timeout=600.0,
    aliases=ALIASES,
    sql_fields=SQL_FIELDS,
    result_fields=SQL_RESULT_FIELDS,
    needs_network=True,
    poll_seconds=300.0,
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


def check(params: Mapping[str, Any]) -> Iterator[ParamProblem]:
    """``params`` is no list."""
    yield from list_problems(params)


def run(params: Params, context: TaskContext) -> TaskResult | PollRequest:
    """Run the statements one after the other, and return the last one's result.

    A statement that is not over after a moment is asked about later (``context.pending``).

    The last statement's ``{columns, rows, row_count}`` or ``{affected_rows}``; several also have ``results``.

    Each statement is a transaction of its own. Raises TaskError: ``code`` is Snowflake's number (docs/kinds.md has the kinds);
    on a timeout or a cancel the statement is cancelled there.
    """
    from noetl.kinds.snowflake.api import PendingStatement, Session

    statements = params.statements(context)
    places = {
        "database": params.database,
        "schema": params.db_schema,
        "warehouse": params.warehouse,
        "role": params.role,
    }
    session = Session(context.credential(params.auth), places, context)
    pending: dict[str, Any] = dict(context.pending or {})
    last: dict[str, Any] = {}
    summaries: list[dict[str, Any]] = pending.get("summaries", [])
    for number, statement in enumerate(statements, start=1):
        if number <= len(summaries):
            continue
        waits = pending if pending.get("number") == number else None
        try:
            done = session.run(statement, number, waits, keep=number == len(statements))
        except TaskError as error:
            if len(statements) > 1 and not params.is_insert:
                error.details.setdefault("statement", number)
            raise
        if isinstance(done, PendingStatement):
            state = {"auth": params.auth, "number": number, "summaries": summaries, **done.state}
            return PollRequest(state, done.delay)
        last = done
        summaries.append(summary_of(last))
    meta = {"snowflake": {"query_id": session.query_id}}
    if params.is_insert:
        return TaskResult({"affected_rows": sum(one["affected_rows"] for one in summaries)}, meta)
    return TaskResult(combine([*summaries[:-1], last]), meta)


def stop(state: Mapping[str, Any], context: TaskContext) -> None:
    """Cancel the statement that is under way."""
    from noetl.kinds.snowflake.api import Session

    Session(context.credential(str(state["auth"])), {}, context).cancel(str(state["handle"]))
