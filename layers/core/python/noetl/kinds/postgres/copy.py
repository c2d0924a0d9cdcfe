"""Rows into a table of Postgres with COPY, read some at a time and counted.

One call belongs to one transaction of its caller's: when it raises, nothing of it stays. Shared by the kinds
``postgres`` and ``transfer``.
"""

from __future__ import annotations

import re
import selectors
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import psycopg
from psycopg import pq
from psycopg.pq import DiagnosticField, ExecStatus

from noetl.domain.errors import TaskError, TemplateError
from noetl.kinds.postgres.copy_text import BYTEA, Lines, Row, csv_blocks, csv_header
from noetl.kinds.postgres.run import Session, failure_of
from noetl.kinds.rows.reading import Readable
from noetl.templating.contract import RenderedStatement
from noetl.templating.sql_values import quote_name, quote_part

STAGING = "noetl_copied"
Mode = Literal["append", "replace", "upsert"]
_LINE = re.compile(r"\bline (\d+)")


@dataclass(frozen=True, slots=True)
class Target:
    """The target of rows.

    ``table``: ``schema.table``, taken exactly; ``columns``: those that are written (empty: what the rows have).

    ``append`` adds rows; ``replace`` deletes what is there first; ``upsert`` replaces rows of the same ``key`` (of several rows
    with one key the last one counts).
    """

    table: str
    columns: tuple[str, ...] = ()
    mode: Mode = "append"
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.mode == "upsert") != bool(self.key):
            raise TaskError(
                f"mode {self.mode} and key {list(self.key)} do not fit together",
                kind="schema",
                code="copy_key",
                hint="an upsert names the columns of its key; the other modes have none",
            )


@dataclass(frozen=True, slots=True)
class Copied:
    """The counts of a copy.

    ``row_count``: rows that were carried; ``affected_rows``: rows of the table that were written (fewer where keys repeat).
    """

    row_count: int
    affected_rows: int


def copy_rows(
    session: Session, target: Target, chunks: Iterable[Sequence[Row]], expected: int | None = None
) -> Copied:
    """Copy rows (mappings of JSON values), chunk by chunk, into the target.

    ``expected``: the number of rows there must be.

    Without ``columns`` the first row defines them, and every row has them; a column that a later row lacks is null. With
    ``columns``, other fields of rows are left out. Raises TaskError; ``details.row`` is the number of the row at fault, from 1.
    """
    source = iter(chunks)
    first = next((chunk for chunk in source if chunk), None)
    if first is None:
        return _copy_nothing(session, target, expected)
    columns = target.columns or tuple(first[0])
    types = column_types(session, target.table, columns)
    lines = Lines(columns, types, strict=not target.columns)
    counted = _carry(session, target, columns, "", lines.pieces(_again(first, source)))
    _verify(target, counted.row_count, lines.count if expected is None else expected)
    return counted


def copy_csv(session: Session, target: Target, stream: Readable, expected: int | None = None) -> Copied:
    """Copy CSV with a header as it is, without reading its fields: the fastest way.

    An empty field is null, ``""`` an empty text.

    ``columns`` has to name those of the header, in any order. ``expected``: how many rows there have to be. Raises TaskError;
    ``details.line`` is the line at fault, counted from 1, which is the header.
    """
    head, rest = csv_header(stream)
    columns = tuple(head)
    if target.columns and sorted(target.columns) != sorted(columns):
        raise TaskError(
            f"the CSV has the columns {', '.join(columns)[:300]}, not {', '.join(target.columns)[:300]}",
            kind="schema",
            code="copy_columns",
            hint="name the columns of its header, or none",
        )
    types = column_types(session, target.table, columns)
    if BYTEA in types:
        raise TaskError(
            f"CSV cannot carry {columns[types.index(BYTEA)]!r}, which is binary",
            kind="schema",
            code="copy_columns",
            hint="give the rows as jsonl or parquet",
        )
    counted = _carry(session, target, columns, " WITH (FORMAT csv)", csv_blocks(rest, stream), header_lines=1)
    if expected is not None:
        _verify(target, counted.row_count, expected)
    return counted


def column_types(session: Session, table: str, columns: Sequence[str]) -> list[int]:
    """Return the types (object ids; a domain's base) of columns of a table.

    Raises TaskError for columns that the table does not have.
    """
    found = _described(session, table)
    missing = [name for name in columns if name not in found]
    if missing:
        raise TaskError(
            f"the table {table} has no column {', '.join(map(repr, missing[:10]))}",
            kind="client_error",
            code="42703",
            hint=f"it has {', '.join(found)[:300]}; `columns` says which fields of the rows are written",
            details={"sqlstate": "42703"},
        )
    return [found[name] for name in columns]


def _described(session: Session, table: str) -> dict[str, int]:
    text = (
        "SELECT a.attname, COALESCE(NULLIF(t.typbasetype, 0), t.oid)::bigint AS type"
        " FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"
        " WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
    try:
        rows = session.run(RenderedStatement(text, {"table": quoted(table)}), keep=True)["rows"]
    except TaskError as error:
        error.message = f"the table {table} cannot be written: {error.message.partition(' in: ')[0]}"
        error.hint = "name it as it is: schema.table, in upper and lower case"
        raise
    return {row["attname"]: row["type"] for row in rows}


def quoted(table: str) -> str:
    """Quote ``schema.table`` as ``"schema"."table"``.

    Raises TaskError(code="name_invalid").
    """
    try:
        return str(quote_name(table))
    except TemplateError as error:
        raise _bad_name(error) from None


def quoted_names(names: Iterable[str]) -> str:
    """Column names with commas between them. Raises TaskError(code="name_invalid")."""
    try:
        return ", ".join(quote_part(name) for name in names)
    except TemplateError as error:
        raise _bad_name(error) from None


def _bad_name(error: TemplateError) -> TaskError:
    return TaskError(error.message, kind="client_error", code="name_invalid", hint=error.hint)


def _again(first: Sequence[Row], rest: Iterator[Sequence[Row]]) -> Iterator[Sequence[Row]]:
    yield first
    yield from rest


def _copy_nothing(session: Session, target: Target, expected: int | None) -> Copied:
    """Copy no rows; a ``replace`` still deletes the rows of the table."""
    _verify(target, 0, expected or 0)
    if target.mode == "replace":
        empty_table(session, target.table)
    return Copied(0, 0)


def _verify(target: Target, counted: int, expected: int) -> None:
    if counted != expected:
        raise TaskError(
            f"{expected} rows were to go into {target.table}, and the database counts {counted}; nothing was changed",
            kind="db_constraint",
            code="copy_count",
            hint="does a trigger of the table leave rows out, or has the source fewer rows than it says?",
            details={"expected": expected, "counted": counted},
        )


# --- one COPY ---------------------------------------------------------------------------------------


def _carry(
    session: Session,
    target: Target,
    columns: Sequence[str],
    options: str,
    pieces: Iterator[bytes],
    header_lines: int = 0,
) -> Copied:
    table, names = quoted(target.table), quoted_names(columns)
    if not set(target.key) <= set(columns):
        raise TaskError(
            f"the key {', '.join(target.key)} is not among the columns that are written: {', '.join(columns)[:300]}",
            kind="schema",
            code="copy_key",
            hint="the rows, and `columns` if given, need the columns of the key",
        )
    if target.mode == "replace":
        empty_table(session, target.table)
    if target.mode != "upsert":
        count = _send(session, f"COPY {table} ({names}) FROM STDIN{options}", pieces, header_lines)
        return Copied(count, count)
    session.command(
        _sql("CREATE TEMP TABLE", STAGING, "ON COMMIT DROP AS SELECT", names, "FROM", table, "WITH NO DATA")
    )
    count = _send(session, f"COPY {STAGING} ({names}) FROM STDIN{options}", pieces, header_lines)
    affected = session.run(RenderedStatement(_merge(table, columns, target.key)), keep=False)["affected_rows"]
    session.command(f"DROP TABLE {STAGING}")
    return Copied(count, affected)


def _merge(table: str, columns: Sequence[str], key: Sequence[str]) -> str:
    """Write the statement that merges staged rows; of rows with one key the last one counts.

    Rows of the staging table are in the order they came in.
    """
    names, keys = quoted_names(columns), quoted_names(key)
    others = [quoted_names([name]) for name in columns if name not in key]
    change = (
        f"UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}" if others else "NOTHING"
    )
    last = _sql(f"SELECT DISTINCT ON ({keys})", names, "FROM", STAGING, "ORDER BY", keys, ", ctid DESC")
    return _sql("INSERT INTO", table, f"({names})", last, f"ON CONFLICT ({keys}) DO", change)


def empty_table(session: Session, table: str) -> None:
    """Delete every row of the table, also one that another transaction is writing.

    The lock waits for such writers, and they wait until this transaction is over.
    A DELETE alone does not see rows that arrive after it began: of two transactions that replace the same table at once, both would
    leave their rows.
    """
    name = quoted(table)
    kind = "SELECT relkind IN ('r', 'p') AS locked FROM pg_catalog.pg_class WHERE oid = %(table)s::regclass"
    if session.run(RenderedStatement(kind, {"table": name}), keep=True)["rows"][0]["locked"]:
        session.command(_sql("LOCK TABLE", name, "IN SHARE ROW EXCLUSIVE MODE"))
    session.command(_sql("DELETE FROM", name))


def _sql(*parts: str) -> str:
    """Join a statement of words and of names that are quoted already."""
    return " ".join(parts)


def _send(session: Session, text: str, pieces: Iterator[bytes], header_lines: int) -> int:
    """Rows that the server counted. Raises TaskError, with the transaction ready to be undone."""
    session.connection.pgconn.send_query(text.encode())
    started = next(session.results())
    if started.status != ExecStatus.COPY_IN:
        list(session.results())
        raise failure_of(started, text)
    problem: TaskError | None = None
    try:
        for piece in pieces:
            _put(session, piece)
    except TaskError as error:
        if session.connection.closed:
            raise
        problem = error
    _end(session, b"its source cannot be read" if problem is not None else None)
    ended = list(session.results())
    if problem is not None:
        raise problem
    failed = next((result for result in ended if result.status == ExecStatus.FATAL_ERROR), None)
    if failed is not None:
        raise _failure(failed, text, header_lines)
    return ended[-1].command_tuples or 0


def _put(session: Session, piece: bytes) -> None:
    _until_taken(session, lambda: session.connection.pgconn.put_copy_data(piece))


def _end(session: Session, why: bytes | None) -> None:
    _until_taken(session, lambda: session.connection.pgconn.put_copy_end(why))


def _until_taken(session: Session, offer: Callable[[], int]) -> None:
    """Wait until libpq takes the data, and the server takes it from libpq.

    So memory does not grow when the server is slower.
    """
    try:
        while not offer():
            _flush(session)
        _flush(session)
    except (psycopg.OperationalError, OSError) as error:
        session.connection.close()
        raise TaskError(
            f"the connection to the database was lost: {' '.join(str(error).split())[:200]}",
            kind="db_connection",
            code="08006",
            retryable=True,
            details={"sqlstate": "08006"},
        ) from error


def _flush(session: Session) -> None:
    pgconn = session.connection.pgconn
    if not pgconn.flush():
        return
    with selectors.PollSelector() as selector:
        selector.register(pgconn.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while pgconn.flush():
            session.wait(selector)
            # Notices of the server are taken off its hands, or it would stop reading.
            pgconn.consume_input()


def _failure(result: pq.abc.PGresult, text: str, header_lines: int) -> TaskError:
    """Convert the server's error; its line is the row where this module wrote the rows."""
    error = failure_of(result, text)
    context = (result.error_field(DiagnosticField.CONTEXT) or b"").decode("utf-8", "replace")
    found = _LINE.search(context)
    if found is None:
        return error
    line = int(found[1])
    position = {"line": line + header_lines} if header_lines else {"row": line}
    name, number = next(iter(position.items()))
    return TaskError(
        f"{name} {number}: {error.message}; {context.splitlines()[0][:200]}",
        kind=error.kind,
        code=error.code,
        hint=error.hint,
        retryable=error.retryable,
        details={**error.details, **position},
    )
