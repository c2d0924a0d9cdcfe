"""DuckDB as an end of a transfer: a query over files, or a table of a database file.

The query may also read a database file. The transfer's progress is in the same file and changes in the same transaction.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.kinds.duckdb.database_files import kept_database
from noetl.kinds.duckdb.quoting import literal, name_of
from noetl.kinds.duckdb.session import Session, open_session
from noetl.kinds.duckdb.sources import Table
from noetl.kinds.duckdb.values import json_lines
from noetl.kinds.rows.columns import check_names
from noetl.kinds.rows.parquet import parquet_types, read_parquet
from noetl.kinds.support.task_workspace import private_folder
from noetl.kinds.transfer.endpoint_base import SourceEnd, TargetEnd
from noetl.kinds.transfer.endpoints import (
    BOOKS,
    KEPT_DAYS,
    Chunk,
    Plan,
    Position,
    Progress,
    Row,
    Source,
    check_begun,
    counts_differ,
    in_chunks,
    overtaken,
)
from noetl.kinds.transfer.params import DuckdbSource, DuckdbTarget
from noetl.kinds.transfer.sql import after_clause, last_key, statement_of
from noetl.templating.contract import RenderedStatement

_CHUNK = "noetl_chunk"
_BINARY = frozenset({"BLOB", "BYTEA", "VARBINARY"})


class FromDuckdb(SourceEnd[DuckdbSource]):
    """A query as a source. It runs at once, into a file, and its rows are read from there.

    So the database file is free while the rows are moved.
    """

    def __enter__(self) -> Self:
        self._folder = self._stack.enter_context(private_folder(self._context))
        return self

    def chunks(self, position: Position | None) -> Iterator[Chunk]:
        order = self._params.order_by
        statement = statement_of(self._params, self._context, name_of)
        if order:
            statement = after_clause(statement, [name_of(name) for name in order], None)
        path = self._folder / "source.parquet"
        database = kept_database(self._params.database, self._context)
        with open_session(database, self._context, folder=self._folder, output=path) as session:
            session.save(statement, "parquet", path)
        self.types = parquet_types(path)
        self.columns = list(self.types)
        read = int(position["rows"]) if position else 0
        before = list(position["after"]) if position and order else None
        pieces = read_parquet(path, chunk_rows=min(self._chunk_rows, 1000), skip=read, what="the rows")
        for chunk in in_chunks(pieces, self._chunk_rows):
            read += len(chunk)
            progress: dict[str, Any] = {"rows": read}
            if order:
                before = progress["after"] = last_key(chunk, order, before)
            yield Chunk(chunk, progress)


class IntoDuckdb(TargetEnd[DuckdbTarget]):
    """A table as a target; each chunk is a transaction.

    For ``replace``, and when the source has no order, rows are gathered in a table beside the target, which goes into it in one transaction
    at the end.
    """

    def __init__(self, params: DuckdbTarget, plan: Plan, context: TaskContext) -> None:
        super().__init__(params, plan, context)
        self._names = {
            "books": name_of(BOOKS),
            "table": name_of(params.table),
            "staging": name_of(plan.staging),
        }
        self._staged = plan.mode == "replace" or not plan.resumable

    def __enter__(self) -> Self:
        self._folder = self._stack.enter_context(private_folder(self._context))
        return self

    def begin(self) -> Progress:
        with self._opened() as session:
            self._types = self._described(session)
            self._run(
                session,
                "CREATE TABLE IF NOT EXISTS $books (key VARCHAR PRIMARY KEY, fingerprint VARCHAR NOT NULL, position JSON, columns JSON,"
                " rows_read BIGINT NOT NULL DEFAULT 0, rows_written BIGINT NOT NULL DEFAULT 0, done BOOLEAN NOT NULL DEFAULT false,"
                " staging VARCHAR, updated_at TIMESTAMP NOT NULL DEFAULT current_localtimestamp())",
            )
            self._forget_old(session)
            self._run(
                session,
                "INSERT OR IGNORE INTO $books (key, fingerprint) VALUES (%(key)s, %(fingerprint)s)",
                key=self._plan.key,
                fingerprint=self._plan.fingerprint,
            )
            rows = self._run(
                session,
                "SELECT fingerprint, position, columns, rows_read, rows_written, done FROM $books WHERE key = %(key)s",
                key=self._plan.key,
            )["rows"]
            found = rows[0]
            check_begun(self._plan, found["fingerprint"])
            if not self._plan.resumable and not found["done"]:
                self._run(
                    session,
                    "UPDATE $books SET rows_read = 0, rows_written = 0 WHERE key = %(key)s",
                    key=self._plan.key,
                )
                found |= {"position": None, "rows_read": 0, "rows_written": 0}
        self._progress = Progress(found["position"], found["rows_read"], found["rows_written"], found["done"])
        self._columns = tuple(found["columns"] or self._columns)
        return self._progress

    def write(self, rows: Sequence[Row], position: Position, source: Source) -> None:
        if not self._columns:
            self._columns = tuple(source.columns or rows[0])
        self._check_columns()
        if not self._plan.columns:
            check_names(rows, self._columns, self._progress.rows_read)
        with self._opened(rows) as session:
            self._write(session, rows, position)

    def finish(self, source: Source) -> dict[str, Any]:
        with self._opened() as session:
            if self._staged:
                self._exchange(session)
            self._note(session, self._progress.rows_read, None, done=True)
        return {
            "rows_written": self._progress.rows_written,
            "table": self._params.table,
            "database": self._params.database,
        }

    def _write(self, session: Session, rows: Sequence[Row], position: Position) -> None:
        before = self._progress.rows_read
        try:
            written = self._written(session, before)
        except TaskError as error:
            error.details["rows"] = [before + 1, before + len(rows)]
            error.message = f"rows {before + 1} to {before + len(rows)}: {error.message}"
            raise
        if written != len(rows) and (self._staged or self._plan.mode != "upsert"):
            raise counts_differ(len(rows), written, self._params.table)
        self._progress.rows_read += len(rows)
        self._progress.rows_written += written
        self._note(session, before, position, done=False)

    def _written(self, session: Session, before: int) -> int:
        self._names["columns"] = ", ".join(map(name_of, self._columns))
        if not self._staged:
            return self._into_table(session, _CHUNK)
        if not before:
            self._run(session, "DROP TABLE IF EXISTS $staging")
            self._run(
                session,
                "CREATE TABLE $staging AS SELECT $columns, 0::BIGINT AS noetl_row FROM $table LIMIT 0",
            )
        self._names["chunk"] = _CHUNK
        text = (
            "INSERT INTO $staging ($columns, noetl_row) SELECT $columns, noetl_row + %(before)s FROM $chunk"
        )
        return int(self._run(session, text, before=before)["affected_rows"])

    def _into_table(self, session: Session, rows: str) -> int:
        """Rows of a table or view go into the target; of those with one key the last one counts."""
        keys = self._plan.keys
        others = [name_of(name) for name in self._columns if name not in keys]
        sets = ", ".join(f"{name} = excluded.{name}" for name in others)
        self._names |= {
            "columns": ", ".join(map(name_of, self._columns)),
            "rows": rows,
            "key": ", ".join(map(name_of, keys)),
            "change": f"UPDATE SET {sets}" if sets else "NOTHING",
        }
        text = "INSERT INTO $table ($columns) SELECT $columns FROM $rows"
        if self._plan.mode == "upsert":
            text += " QUALIFY row_number() OVER (PARTITION BY $key ORDER BY noetl_row DESC) = 1 ON CONFLICT ($key) DO $change"
        return int(self._run(session, text)["affected_rows"])

    def _exchange(self, session: Session) -> None:
        """Move the rows that were gathered beside the table into it."""
        if self._plan.mode == "replace":
            self._run(session, "DELETE FROM $table")
        if not self._progress.rows_read:
            return
        self._progress.rows_written = self._into_table(session, self._names["staging"])
        if self._plan.mode != "upsert" and self._progress.rows_written != self._progress.rows_read:
            raise counts_differ(self._progress.rows_read, self._progress.rows_written, self._params.table)
        self._run(session, "DROP TABLE $staging")

    def _note(self, session: Session, before: int, position: Position | None, *, done: bool) -> None:
        changed = self._run(
            session,
            "UPDATE $books SET rows_read = %(read)s, rows_written = %(written)s, columns = %(columns)s, done = %(done)s, staging = %(staging)s,"
            " position = COALESCE(%(position)s, position), updated_at = current_localtimestamp()"
            " WHERE key = %(key)s AND rows_read = %(before)s AND NOT done",
            read=self._progress.rows_read,
            written=self._progress.rows_written,
            columns=codec.encode(self._columns).decode(),
            done=done,
            staging=self._plan.staging if self._staged else None,
            position=codec.encode(position).decode() if position is not None else None,
            key=self._plan.key,
            before=before,
        )
        if changed["affected_rows"] != 1:
            raise overtaken()

    def _forget_old(self, session: Session) -> None:
        given = {"days": KEPT_DAYS, "key": self._plan.key}
        old = self._run(
            session,
            "DELETE FROM $books WHERE updated_at < current_localtimestamp() - to_days(%(days)s) AND key <> %(key)s RETURNING staging",
            **given,
        )
        for name in {row["staging"] for row in old.get("rows", ())} - {None}:
            session.run(RenderedStatement(f"DROP TABLE IF EXISTS {name_of(name)}"), keep=False)

    # --- the table ------------------------------------------------------------------------------------

    def _described(self, session: Session) -> dict[str, str]:
        found = self._run(
            session,
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = %(table)s AND schema_name = 'main' AND NOT internal",
            table=self._params.table,
        )["rows"]
        if not found:
            raise TaskError(
                f"the database {self._params.database} has no table {self._params.table!r}",
                kind="client_error",
                code="catalog",
                hint=f"create it before: {{kind: duckdb, database: {self._params.database}, query: 'CREATE TABLE IF NOT EXISTS …'}}",
            )
        return {row["column_name"]: row["data_type"] for row in found}

    def _check_columns(self) -> None:
        missing = [name for name in self._columns if name not in self._types]
        if missing:
            raise TaskError(
                f"the table {self._params.table} has no column {', '.join(map(repr, missing[:10]))}",
                kind="client_error",
                code="binder",
                hint=f"it has {', '.join(self._types)[:300]}; say which are wanted in `columns`",
            )

    # --- one session ----------------------------------------------------------------------------------

    def _opened(self, rows: Sequence[Row] | None = None) -> AbstractContextManager[Session]:
        """Open a transaction; ``rows`` are the view ``noetl_chunk`` in it."""
        tables = [self._view(rows)] if rows is not None else []
        database = kept_database(self._params.database, self._context)
        return open_session(database, self._context, tables, folder=self._folder)

    def _view(self, rows: Sequence[Row]) -> Table:
        path = self._folder / "chunk.jsonl"
        with path.open("wb") as file:
            for row in rows:
                file.write(codec.encode({name: row.get(name) for name in self._columns}) + b"\n")
        shapes = {name: self._types[name] for name in self._columns}
        binary = [name_of(name) for name, kind in shapes.items() if kind in _BINARY]
        columns = ", ".join(
            f"{literal(name)}: {literal('VARCHAR' if kind in _BINARY else kind)}"
            for name, kind in shapes.items()
        )
        star = (
            f"* REPLACE ({', '.join(f'from_base64({name}) AS {name}' for name in binary)})" if binary else "*"
        )
        parts = ["SELECT", star, ", row_number() OVER () AS noetl_row FROM", json_lines(path, columns)]
        return Table(_CHUNK, " ".join(parts), (str(path),))

    def _run(self, session: Session, text: str, **params: Any) -> dict[str, Any]:
        names = {name: sql.replace("%", "%%") if params else sql for name, sql in self._names.items()}
        return session.run(RenderedStatement(string.Template(text).substitute(names), params), keep=True)
