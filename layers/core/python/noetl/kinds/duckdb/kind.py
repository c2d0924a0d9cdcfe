"""The kind ``duckdb``: runs SQL in DuckDB, in memory or on a file, over files and sources.

Files are those of the playbook's folders; sources are passed to the task.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.kinds.duckdb.params import Params, check
from noetl.kinds.rows.database import combine
from noetl.kinds.support.sql_params import SQL_FIELDS, SQL_RESULT_FIELDS, STREAM_ALIASES

if TYPE_CHECKING:
    from noetl.kinds.duckdb.session import Session
    from noetl.templating.contract import RenderedStatement

__all__ = ["EXAMPLE", "SPEC", "Params", "check", "run"]

SPEC = KindSpec(
    name="duckdb",
    summary="Runs SQL in DuckDB over files, results of steps, and rows of Postgres.",
    pool="cpu",
    default_timeout=120.0,
    aliases=STREAM_ALIASES,
    sql_fields=SQL_FIELDS,
    result_fields=SQL_RESULT_FIELDS,
    ref_fields=("sources",),
    needs_network=True,
    extra="local",
)

EXAMPLE: dict[str, Any] = {
    "query": "SELECT city, avg(temp) AS temp FROM read_csv('obs.csv') WHERE day >= %(since)s GROUP BY city",
    "params": {"since": "2024-01-01"},
}
LEAST_SECONDS = 1.0


def run(params: Params, context: TaskContext) -> TaskResult:
    """Run the statements; return the last one's result.

    It is ``{columns, rows, row_count}`` or ``{affected_rows}``; several statements also have ``results``.

    With ``result: parquet`` and such, the reference of the rows. Raises TaskError (docs/kinds.md lists the codes).
    """
    from noetl.kinds.duckdb.database_files import database_of
    from noetl.kinds.duckdb.session import open_session
    from noetl.kinds.duckdb.sources import tables_of
    from noetl.kinds.support.task_workspace import private_folder

    statements = params.statements(context)
    deadline = time.monotonic() + context.timeout
    with private_folder(context) as folder, ExitStack() as files:
        output = folder / f"result.{params.result}" if params.result != "rows" else None
        tables = tables_of(params.sources or {}, context, folder, files)
        database = database_of(params.database, context, folder, deadline)
        left = replace(context, timeout=max(LEAST_SECONDS, deadline - time.monotonic()))
        with open_session(database, left, tables, folder=folder, output=output) as session:
            first = statements if output is None else statements[:-1]
            result = _run_all(session, first, is_insert=params.is_insert, keep=output is None)
            saved = session.save(statements[-1], params.result, output) if output else None
        if output is not None and saved is not None:
            result = _kept(output, params.result, saved, context)
    return TaskResult(result)


def _run_all(
    session: Session, statements: list[RenderedStatement], *, is_insert: bool, keep: bool
) -> dict[str, Any]:
    found = [
        session.run(statement, keep=keep and number == len(statements), names_files=not is_insert)
        for number, statement in enumerate(statements, start=1)
    ]
    if is_insert:
        return {"affected_rows": sum(one["affected_rows"] for one in found)}
    return combine(found)


def _kept(path: Path, format: str, saved: tuple[int, list[str]], context: TaskContext) -> dict[str, Any]:
    from noetl.kinds.rows.parquet import copy_out, redact_parquet
    from noetl.kinds.rows.writing import rows_meta

    if format == "parquet":
        redact_parquet(path, context.artifacts.redaction())
    with context.artifacts.create(format) as out:  # type: ignore[arg-type]  # one of the formats
        copy_out(path, out.write)
        return out.close(rows_meta(*saved))
