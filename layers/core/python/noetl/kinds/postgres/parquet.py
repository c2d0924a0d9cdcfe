"""Rows of Postgres as a Parquet artifact, by way of a file of JSON lines."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.kinds.duckdb.quoting import literal
from noetl.kinds.duckdb.values import spool, spooled_rows
from noetl.kinds.rows.parquet import copy_out, parquet_options, redact_parquet
from noetl.kinds.rows.writing import rows_meta
from noetl.kinds.support.task_workspace import private_folder

if TYPE_CHECKING:
    from noetl.kinds.postgres.select import Rows


def write_parquet(rows: Rows, context: TaskContext) -> dict[str, Any]:
    """Write rows to a Parquet artifact, in the types of Postgres where DuckDB has them.

    Return its reference. Raises TaskError.
    """
    try:
        import duckdb

        from noetl.kinds.duckdb.session import failure_of, settings_of
    except ImportError:
        raise TaskError(
            "Parquet is written by DuckDB, which is not installed here",
            kind="unknown",
            code="dependency_missing",
            hint="write `result: jsonl`, and let a duckdb task make Parquet of it; or pip install 'noetl-serverless[local]'",
        ) from None
    with private_folder(context) as folder:
        lines, path = folder / "rows.jsonl", folder / "rows.parquet"
        count = spool(rows, lines)
        with closing(duckdb.connect(config=settings_of(context, folder))) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            try:
                chosen = spooled_rows(lines, rows.columns)
                redaction = context.artifacts.redaction()
                options = parquet_options(redaction)
                connection.execute(f"COPY ({chosen}) TO {literal(str(path))} ({options})")
            except duckdb.Error as error:
                raise _unfit_for_parquet(failure_of(error, ""), lines) from error
        lines.unlink()
        redact_parquet(path, redaction)
        with context.artifacts.create("parquet") as out:
            copy_out(path, out.write)
            return out.close(rows_meta(count, [column.name for column in rows.columns]))


def _unfit_for_parquet(error: TaskError, lines: Path) -> TaskError:
    """Describe rows that do not fit into Parquet (years before 1 and such).

    The path of the temporary file is left out of the message.
    """
    error.message = f"the rows do not fit into Parquet: {error.message.replace(str(lines), 'the rows')}"
    error.hint = "cast the column that does not fit to text, or write `result: jsonl`"
    return error
