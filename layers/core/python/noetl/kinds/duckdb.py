"""Runs SQL in DuckDB, in memory or on a file of its own, over files of the playbook's folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.kinds.rows import combine, summary_of
from noetl.kinds.sql_params import ALIASES, SQL_FIELDS, SqlParams

SPEC = KindSpec(
    name="duckdb",
    summary="Runs SQL in DuckDB over CSV, JSON and Parquet files.",
    pool="cpu",
    default_timeout=120.0,
    aliases=ALIASES,
    sql_fields=SQL_FIELDS,
    extra="local",
)

EXAMPLE: dict[str, Any] = {
    "query": "SELECT city, avg(temp) AS temp FROM read_csv('obs.csv') WHERE day >= %(since)s GROUP BY city",
    "params": {"since": "2024-01-01"},
}


class Params(SqlParams):
    """``query``, or ``table`` with ``args``; in memory unless ``database`` names a file."""

    refused: ClassVar[Mapping[str, str]] = {
        "auth": "a duckdb task reaches files only; use postgres or http for what needs a credential"
    }

    database: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}(\.duckdb)?$",
            description="A database file kept in the work folder; in memory unless given.",
        ),
    ] = None


def run(params: Params, context: TaskContext) -> TaskResult:
    """The last statement's ``{columns, rows, row_count}`` or ``{affected_rows}``; several also give ``results``.

    Raises TaskError (docs/kinds.md lists the codes).
    """
    from noetl.kinds.duckdb_session import open_session

    statements = params.statements(context)
    last: dict[str, Any] = {"affected_rows": 0}
    summaries: list[dict[str, Any]] = []
    with open_session(params.database, context) as session:
        for number, statement in enumerate(statements, start=1):
            last = session.run(statement, keep=number == len(statements))
            summaries.append(summary_of(last))
    if params.is_insert:
        return TaskResult({"affected_rows": sum(summary["affected_rows"] for summary in summaries)})
    return TaskResult(combine(last, summaries))
