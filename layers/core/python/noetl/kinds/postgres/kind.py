"""The kind ``postgres``: bound queries, rows into a table, and results too large to hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, ParamProblem, TaskContext, TaskResult
from noetl.kinds.rows.database import combine
from noetl.kinds.rows.sources import chunked, promised_rows, references, row_chunks, row_format, rows_of
from noetl.kinds.support.nested_params import nested_problems
from noetl.kinds.support.params import has_hole
from noetl.kinds.support.sql_params import (
    SQL_FIELDS,
    SQL_RESULT_FIELDS,
    STREAM_ALIASES,
    RowsResult,
    SqlParams,
    list_problems,
)
from noetl.templating.contract import RenderedStatement

if TYPE_CHECKING:
    from noetl.kinds.postgres.copy import Copied
    from noetl.kinds.postgres.run import Session

SPEC = KindSpec(
    name="postgres",
    summary="Runs SQL on Postgres, with bound values, in one transaction.",
    pool="io",
    default_timeout=60.0,
    aliases=STREAM_ALIASES,
    sql_fields=SQL_FIELDS,
    result_fields=SQL_RESULT_FIELDS,
    ref_fields=("copy",),
    needs_network=True,
)

EXAMPLE: dict[str, Any] = {
    "auth": "warehouse",
    "query": "SELECT id, total FROM orders WHERE customer = %(customer)s",
    "params": {"customer": 17},
}


class Copy(BaseModel):
    """``from`` into ``table`` by COPY."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    table: Annotated[str, Field(min_length=1, description="`schema.table`, taken exactly.")]
    rows: Annotated[
        Any, Field(alias="from", description="The result of a step, or a list of rows: read as a stream.")
    ]
    format: Annotated[
        Literal["csv", "jsonl", "json", "parquet"] | None,
        Field(description="What the bytes of the result are, unless it says so."),
    ] = None
    columns: Annotated[
        list[str] | None, Field(min_length=1, description="Columns to write. Default: those of the rows.")
    ] = None
    mode: Annotated[
        Literal["append", "replace", "upsert"],
        Field(description="`replace` deletes what is there; `upsert` replaces rows of the same `key`."),
    ] = "append"
    key: Annotated[
        list[str] | None, Field(min_length=1, description="`upsert`: columns of a unique key.")
    ] = None

    @model_validator(mode="after")
    def _key_fits(self) -> Self:
        if (self.mode == "upsert") != (self.key is not None):
            raise ValueError("an upsert needs a `key`, and nothing else has one")
        return self


class Params(SqlParams):
    """``query``, or ``table`` with ``args``, or ``copy`` (with a query before it).

    They run on the database that ``auth`` names.
    """

    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("db_host", "db_port", "db_user", "db_password", "db_name", "host", "password", "dsn"),
        "register a credential and name it in `auth`",
    )

    auth: Annotated[
        str | dict[str, Any] | None,
        Field(description="A credential's name. Without it: the scratch database, where there is one."),
    ] = None
    copy_in: Annotated[
        Copy | None,
        Field(
            alias="copy",
            description="Many rows into a table by COPY, in the same transaction, after `query`.",
        ),
    ] = None
    result: RowsResult = "rows"

    @property
    def does_more(self) -> bool:
        return self.copy_in is not None

    @model_validator(mode="after")
    def _one_result(self) -> Self:
        if has_hole([self.table, self.result]):
            return self
        if self.copy_in is not None and (self.table is not None or self.result != "rows"):
            raise ValueError("`copy` is alone or behind a `query`, and has no rows as its result")
        if self.table is not None and self.result != "rows":
            raise ValueError("`table` with `args` returns no rows: leave `result` out")
        return self


def check(params: Mapping[str, Any]) -> Iterator[ParamProblem]:
    """``params``, and keys of ``copy``."""
    yield from list_problems(params)
    yield from nested_problems(Copy, params.get("copy"), ("copy",), "`copy`")


def run(params: Params, context: TaskContext) -> TaskResult:
    """Run the statements; return the last one's result.

    It is ``{columns, rows, row_count}`` or ``{affected_rows}``; several statements also have ``results``.

    With ``result: csv`` and such, the reference of the rows; of a ``copy``, ``{row_count, affected_rows}``.
    Raises TaskError: ``code`` is the SQLSTATE (docs/kinds.md has the kinds).
    """
    from noetl.kinds.postgres.open import opened

    statements = params.statements(context) if params.query is not None or params.table is not None else []
    with opened(params.auth, context) as session:
        while True:
            try:
                if params.copy_in is not None or params.result != "rows":
                    result = _streamed(session, statements, params, context)
                else:
                    result = _in_transaction(session, statements, is_insert=params.is_insert)
                break
            except TaskError as error:
                if not session.learn_type(error):
                    raise
                session.rollback()
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
    session.finish()
    return result


def _run_all(session: Session, statements: list[RenderedStatement], *, is_insert: bool) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for number, statement in enumerate(statements, start=1):
        try:
            found.append(session.run(statement, keep=number == len(statements)))
        except TaskError as error:
            if len(statements) > 1 and not is_insert:
                error.details.setdefault("statement", number)
            raise
    if is_insert:
        return {"affected_rows": sum(one["affected_rows"] for one in found)}
    return combine(found)


def _streamed(
    session: Session, statements: list[RenderedStatement], params: Params, context: TaskContext
) -> dict[str, Any]:
    """Run a copy, or a query whose rows go into an artifact.

    The statements before it run first, in the same transaction.
    """
    session.begin()
    first = statements if params.copy_in is not None else statements[:-1]
    for number, statement in enumerate(first, start=1):
        try:
            session.run(statement, keep=False)
        except TaskError as error:
            error.details.setdefault("statement", number)
            raise
    if params.copy_in is not None:
        copied = _copied(session, params.copy_in, context)
        result = {"row_count": copied.row_count, "affected_rows": copied.affected_rows}
    else:
        result = _saved(session, statements[-1], params.result, context)
    session.finish()
    return result


def _copied(session: Session, copy: Copy, context: TaskContext) -> Copied:
    from noetl.kinds.postgres.copy import Target, copy_csv, copy_rows

    target = Target(copy.table, tuple(copy.columns or ()), copy.mode, tuple(copy.key or ()))
    what = f"what is copied into {copy.table}"
    refs = references(copy.rows, context)
    if not refs:
        return copy_rows(session, target, chunked(rows_of(copy.rows, what) if refs is None else []))
    expected = promised_rows(refs)
    first = refs[0]
    if len(refs) == 1 and isinstance(first, Mapping) and row_format(first, copy.format, what) == "csv":
        with context.artifacts.open(first) as stream:
            return copy_csv(session, target, stream, expected)
    return copy_rows(session, target, row_chunks(refs, context.artifacts, what, format=copy.format), expected)


def _saved(
    session: Session, statement: RenderedStatement, format: str, context: TaskContext
) -> dict[str, Any]:
    from noetl.kinds.postgres.select import select_rows
    from noetl.kinds.rows.writing import write_rows

    rows = select_rows(session, statement)
    if format == "parquet":
        from noetl.kinds.postgres.parquet import write_parquet

        return write_parquet(rows, context)
    names = [column.name for column in rows.columns]
    return write_rows(rows, names, "csv" if format == "csv" else "jsonl", context)
