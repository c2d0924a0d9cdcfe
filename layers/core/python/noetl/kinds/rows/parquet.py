"""What Parquet files are read and written with, and what their columns are."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from noetl.domain.errors import TaskError
from noetl.kinds.rows.database import unique_names


def duckdb_library() -> Any:
    """The module. Raises TaskError(code="dependency_missing") where it is not installed."""
    try:
        import duckdb
    except ImportError:
        raise TaskError(
            "Parquet is read and written by DuckDB, which this worker does not have",
            kind="unknown",
            code="dependency_missing",
            hint="here: pip install 'noetl-serverless[local]'; on a deployment the kinds duckdb and transfer read and write Parquet",
        ) from None
    return duckdb


def parquet_types(path: Path) -> dict[str, str]:
    """The columns of a Parquet file and their types, as DuckDB names them."""
    duckdb = duckdb_library()
    with closing(duckdb.connect()) as connection:
        described = connection.execute("SELECT * FROM read_parquet(?) LIMIT 0", [str(path)]).description or []
    names = unique_names([column[0] for column in described])
    return {name: str(column[1]) for name, column in zip(names, described, strict=True)}
