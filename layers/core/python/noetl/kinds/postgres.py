"""Runs SQL on Postgres: queries with bound values, or rows into a table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential, KindSpec, TaskContext, TaskResult
from noetl.kinds.rows import combine, summary_of
from noetl.kinds.sql_params import ALIASES, SQL_FIELDS, SqlParams
from noetl.templating.contract import RenderedStatement

if TYPE_CHECKING:
    from noetl.kinds.postgres_run import Session

SPEC = KindSpec(
    name="postgres",
    summary="Runs SQL on Postgres, with bound values, in one transaction.",
    pool="io",
    default_timeout=60.0,
    aliases=ALIASES,
    sql_fields=SQL_FIELDS,
    needs_network=True,
)

EXAMPLE: dict[str, Any] = {
    "auth": "warehouse",
    "query": "SELECT id, total FROM orders WHERE customer = %(customer)s",
    "params": {"customer": 17},
}

_CREDENTIALS_HINT = "name a registered credential: auth: warehouse"


class Params(SqlParams):
    """``query``, or ``table`` with ``args``, on the database that ``auth`` names."""

    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("db_host", "db_port", "db_user", "db_password", "db_name", "host", "password", "dsn"),
        "register a credential and name it in `auth`",
    )

    auth: Annotated[
        str | dict[str, Any] | None,
        Field(description="A credential's name. Without it: the scratch database, where there is one."),
    ] = None


def run(params: Params, context: TaskContext) -> TaskResult:
    """The last statement's ``{columns, rows, row_count}`` or ``{affected_rows}``; several also give ``results``.

    Raises TaskError: ``code`` is the SQLSTATE (docs/kinds.md has the kinds).
    """
    from noetl.kinds.postgres_run import Session

    statements = params.statements(context)
    conninfo = _conninfo(params, context)
    deadline = time.monotonic() + context.timeout
    connection = _connections().take(conninfo, context.timeout)
    session = Session(connection, deadline, context.settings.output_max_bytes, context.cancelled)
    try:
        result = _in_transaction(session, statements, is_insert=params.is_insert)
    finally:
        # Whatever happened is decided: a connection that cannot be cleaned is closed and changes nothing.
        if session.clean():
            _connections().give_back(conninfo, connection)
        else:
            connection.close()
    return TaskResult(result, {"pg": {"code": "00000", "sqlstate": "00000"}})


def _in_transaction(
    session: Session, statements: list[RenderedStatement], *, is_insert: bool
) -> dict[str, Any]:
    session.begin()
    try:
        result = _run_all(session, statements, is_insert=is_insert)
    except TaskError as error:
        # VACUUM, CREATE DATABASE or a procedure that commits: nothing has happened yet, and alone they may run.
        if error.code not in ("25001", "2D000") or len(statements) > 1:
            raise
        session.rollback()
        session.begin_without_transaction()
        return session.run(statements[0], keep=True)
    session.commit()
    return result


def _run_all(session: Session, statements: list[RenderedStatement], *, is_insert: bool) -> dict[str, Any]:
    last: dict[str, Any] = {"affected_rows": 0}
    summaries: list[dict[str, Any]] = []
    for number, statement in enumerate(statements, start=1):
        try:
            last = session.run(statement, keep=number == len(statements))
        except TaskError as error:
            if len(statements) > 1 and not is_insert:
                error.details.setdefault("statement", number)
            raise
        summaries.append(summary_of(last))
    if is_insert:
        return {"affected_rows": sum(summary["affected_rows"] for summary in summaries)}
    return combine(last, summaries)


def _conninfo(params: Params, context: TaskContext) -> str:
    from noetl.kinds.postgres_connect import connection_string

    auth = params.auth
    if auth is None:
        if context.settings.workspace_credential:
            return connection_string(context.credential(context.settings.workspace_credential))
        if context.settings.workspace_dsn is None:
            raise TaskError(
                "postgres has no database to use: the task names no 'auth' and this deployment has no scratch database",
                kind="auth",
                code="auth_missing",
                hint=_CREDENTIALS_HINT,
            )
        return context.settings.workspace_dsn
    if isinstance(auth, str):
        return connection_string(context.credential(auth))
    name = auth.get("credential")
    if isinstance(name, str):
        return connection_string(context.credential(name))
    inline = {key: value for key, value in auth.items() if key != "type"}
    return connection_string(Credential("auth", "postgres", inline))


def _connections() -> Any:
    from noetl.kinds import postgres_connect

    return postgres_connect.CONNECTIONS
