"""Postgres as an end of a transfer.

Rows are read through a cursor of the server. They are written by COPY. The transfer's progress (``noetl_transfer``, in the schema
of the table) changes in the same transaction, so a chunk is there exactly once after any crash.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from typing import Any, Self

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.kinds.postgres import copy as copying
from noetl.kinds.postgres.copy import quoted, quoted_names
from noetl.kinds.postgres.open import opened
from noetl.kinds.postgres.select import Column, Rows, select_rows
from noetl.kinds.rows.columns import check_names
from noetl.kinds.rows.database import to_json
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
from noetl.kinds.transfer.params import PostgresSource, PostgresTarget
from noetl.kinds.transfer.sql import after_clause, last_key, statement_of
from noetl.templating.contract import RenderedStatement

_BYTEA, _NUMERIC = 17, 1700
_ROW = re.compile(r"^row \d+: ")
_LOCK = 0x6E6F65746C
"""Key of the advisory lock under which the table of transfers is made."""


class FromPostgres(SourceEnd[PostgresSource]):
    """A query as a source.

    With ``order_by`` it continues behind the last committed row, by the values of these columns.
    """

    def __enter__(self) -> Self:
        self._session = self._stack.enter_context(opened(self._params.auth, self._context))
        return self

    def chunks(self, position: Position | None) -> Iterator[Chunk]:
        order = self._params.order_by
        after = list(position["after"]) if position and order else None
        statement = statement_of(self._params, self._context, quoted)
        if order:
            statement = after_clause(statement, [quoted_names([name]) for name in order], after)
        self._session.begin()
        self._session.command("SET TRANSACTION READ ONLY")
        rows = self._rows(statement)
        binary = {column.name for column in rows.columns if column.type == _BYTEA}
        self.columns = [column.name for column in rows.columns]
        self.types = {column.name: kind for column in rows.columns if (kind := _type(column))}
        read = int(position["rows"]) if position else 0
        for chunk in in_chunks(_mappings(rows), self._chunk_rows):
            read += len(chunk)
            progress: dict[str, Any] = {"rows": read}
            if order:
                after = progress["after"] = last_key(chunk, order, after, binary)
            yield Chunk(chunk, progress)
        self._session.commit()

    def _rows(self, statement: RenderedStatement) -> Rows:
        try:
            return select_rows(self._session, statement)
        except TaskError as error:
            if self._params.order_by and error.code in ("42703", "42702"):
                error.hint = (
                    error.hint or "`order_by` takes columns of the source's rows, each of another name"
                )
            raise


def _type(column: Column) -> str:
    """Return DuckDB's name of a column's type.

    It is empty for a ``numeric`` without a precision, whose values decide which type holds them exactly.
    """
    from noetl.kinds.duckdb.values import duckdb_type

    found = "BLOB" if column.type == _BYTEA else duckdb_type(column)
    return "" if column.type == _NUMERIC and found == "DOUBLE" else found


def _mappings(rows: Rows) -> Iterator[list[Row]]:
    names = [column.name for column in rows.columns]
    for piece in rows:
        yield [dict(zip(names, map(to_json, row), strict=True)) for row in piece]


class IntoPostgres(TargetEnd[PostgresTarget]):
    """A table as a target; each chunk is a transaction, or all of them without an order.

    ``replace`` gathers rows in a table beside the target and exchanges the content in one transaction at the end.
    """

    def __init__(self, params: PostgresTarget, plan: Plan, context: TaskContext) -> None:
        super().__init__(params, plan, context)
        self._names: dict[str, str] = {}
        self._open = False

    def __enter__(self) -> Self:
        self._session = self._stack.enter_context(opened(self._params.auth, self._context))
        return self

    def begin(self) -> Progress:
        """Return what was committed before.

        Raises TaskError: the table is not there, or may not be written.
        """
        schema = self._schema()
        self._staging = f"{schema}.{self._plan.staging}"
        self._names = {
            "books": quoted(f"{schema}.{BOOKS}"),
            "table": quoted(self._params.table),
            "staging": quoted(self._staging),
        }
        self._session.begin()
        self._make_books()
        self._forget_old(schema)
        self._run(
            "INSERT INTO $books (key, fingerprint) VALUES (%(key)s, %(fingerprint)s) ON CONFLICT (key) DO NOTHING",
            key=self._plan.key,
            fingerprint=self._plan.fingerprint,
        )
        found = self._run(
            "SELECT fingerprint, position, columns, rows_read, rows_written, done FROM $books WHERE key = %(key)s",
            key=self._plan.key,
        )["rows"][0]
        check_begun(self._plan, found["fingerprint"])
        self._progress = Progress(found["position"], found["rows_read"], found["rows_written"], found["done"])
        self._columns = tuple(found["columns"] or self._columns)
        if self._plan.mode == "replace" and not found["done"] and self._plan.resumable:
            self._make_staging()
        self._session.commit()
        return self._progress

    def write(self, rows: Sequence[Row], position: Position, source: Source) -> None:
        if not self._columns:
            self._columns = tuple(source.columns or rows[0])
        before = self._progress.rows_read
        if not self._plan.columns:
            check_names(rows, self._columns, before)
        self._enter()
        copied = self._copied(rows, before)
        self._progress.rows_read += len(rows)
        self._progress.rows_written += copied
        self._note(before, position, done=False)
        if self._plan.resumable:
            self._leave()

    def finish(self, source: Source) -> dict[str, Any]:
        self._enter()
        if self._plan.mode == "replace":
            self._exchange()
        self._note(self._progress.rows_read, None, done=True)
        self._leave()
        return {"rows_written": self._progress.rows_written, "table": self._params.table}

    # --- one transaction ------------------------------------------------------------------------------

    def _enter(self) -> None:
        if self._open:
            return
        self._session.begin()
        self._open = True
        if self._plan.mode == "replace" and not self._plan.resumable:
            self._make_staging()

    def _leave(self) -> None:
        self._session.commit()
        self._open = False

    def _copied(self, rows: Sequence[Row], before: int) -> int:
        replaces = self._plan.mode == "replace"
        target = copying.Target(
            self._staging if replaces else self._params.table,
            self._columns,
            "upsert" if self._plan.mode == "upsert" else "append",
            self._plan.keys,
        )
        try:
            return copying.copy_rows(self._session, target, [rows], len(rows)).affected_rows
        except TaskError as error:
            raise _placed(error, before, len(rows)) from None

    def _note(self, before: int, position: Position | None, *, done: bool) -> None:
        """Record the transfer's place; it must be where this attempt left it."""
        kept = codec.encode(position).decode() if position is not None else None
        changed = self._run(
            "UPDATE $books SET rows_read = %(read)s, rows_written = %(written)s, columns = %(columns)s::json, done = %(done)s,"
            " position = COALESCE(%(position)s::json, position), updated_at = now()"
            " WHERE key = %(key)s AND rows_read = %(before)s AND NOT done",
            read=self._progress.rows_read,
            written=self._progress.rows_written,
            columns=codec.encode(self._columns).decode(),
            done=done,
            position=kept,
            key=self._plan.key,
            before=before,
        )
        if changed["affected_rows"] != 1:
            raise overtaken()

    def _exchange(self) -> None:
        copying.empty_table(self._session, self._params.table)
        if self._columns:
            self._names["columns"] = quoted_names(self._columns)
            moved = self._run(
                "INSERT INTO $table ($columns) OVERRIDING SYSTEM VALUE SELECT $columns FROM $staging"
            )["affected_rows"]
            if moved != self._progress.rows_read:
                raise counts_differ(self._progress.rows_read, moved, self._params.table)
        self._run("DROP TABLE $staging")

    # --- what is beside the target --------------------------------------------------------------------

    def _schema(self) -> str:
        """Return the schema of the table."""
        try:
            found = self._run(
                "SELECT n.nspname AS name FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
                " WHERE c.oid = %(table)s::regclass",
                table=quoted(self._params.table),
            )
        except TaskError as error:
            error.message = (
                f"the table {self._params.table} cannot be written: {error.message.partition(' in: ')[0]}"
            )
            error.hint = "create it first; name it as it is: schema.table, in upper and lower case"
            raise
        return str(found["rows"][0]["name"])

    def _make_books(self) -> None:
        if self._run("SELECT to_regclass(%(name)s) IS NOT NULL AS there", name=self._names["books"])["rows"][
            0
        ]["there"]:
            return
        try:
            self._session.command(f"SELECT pg_advisory_xact_lock({_LOCK})")
            self._run(
                "CREATE TABLE IF NOT EXISTS $books (key text PRIMARY KEY, fingerprint text NOT NULL, position json, columns json,"
                " rows_read bigint NOT NULL DEFAULT 0, rows_written bigint NOT NULL DEFAULT 0, done boolean NOT NULL DEFAULT false,"
                " staging text, updated_at timestamptz NOT NULL DEFAULT now())"
            )
        except TaskError as error:
            error.hint = f"a transfer keeps where it is in {self._names['books']}: let its user make tables there, or make it (docs/kinds.md)"
            raise

    def _forget_old(self, schema: str) -> None:
        """Transfers of long ago, with what they left."""
        old = self._run(
            "DELETE FROM $books WHERE updated_at < now() - make_interval(days => %(days)s) AND key <> %(key)s RETURNING staging",
            days=KEPT_DAYS,
            key=self._plan.key,
        )
        for name in {row["staging"] for row in old["rows"]} - {None}:
            self._session.command(f"DROP TABLE IF EXISTS {quoted(f'{schema}.{name}')}")

    def _make_staging(self) -> None:
        """Make the staging table with the constraints of the target.

        So the error of a row that breaks one names the row.
        """
        if self._progress.rows_read:
            return
        self._run("DROP TABLE IF EXISTS $staging")
        self._run(
            "CREATE TABLE $staging (LIKE $table"
            " INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING GENERATED INCLUDING IDENTITY)"
        )
        self._run(
            "UPDATE $books SET staging = %(name)s WHERE key = %(key)s",
            name=self._plan.staging,
            key=self._plan.key,
        )

    def _run(self, text: str, **params: Any) -> dict[str, Any]:
        """Run ``text`` with the tables' names in the place of ``$books``, ``$table`` …"""
        names = {name: sql.replace("%", "%%") if params else sql for name, sql in self._names.items()}
        text = string.Template(text).substitute(names)
        return self._session.run(RenderedStatement(text, params), keep=True)


def _placed(error: TaskError, before: int, count: int) -> TaskError:
    """Number the row at fault over all chunks."""
    row = error.details.get("row")
    if isinstance(row, int):
        error.details["row"] = row + before
        error.message = f"row {row + before}: {_ROW.sub('', error.message)}"
    else:
        error.details["rows"] = [before + 1, before + count]
        error.message = f"rows {before + 1} to {before + count}: {error.message}"
    if error.details.get("detail"):
        error.message += f" ({error.details['detail']})"
    return error
