"""The session of one task with a locked DuckDB."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from noetl.domain.errors import TaskError, TemplateError
from noetl.domain.kinds import TaskContext
from noetl.kinds.duckdb.database_files import Database
from noetl.kinds.duckdb.files import Folders, place_files
from noetl.kinds.duckdb.quoting import literal, name_of
from noetl.kinds.duckdb.sources import Table as SourceTable
from noetl.kinds.rows.database import Table, unique_names
from noetl.kinds.rows.documents import json_readers, with_documents
from noetl.kinds.rows.parquet import parquet_options
from noetl.kinds.support.call_deadline import CallDeadline
from noetl.kinds.support.sql_params import first_line, native_text
from noetl.templating.contract import RenderedStatement

CHUNK_ROWS = 500
THREADS = 2

_READING = frozenset({"SELECT", "EXPLAIN", "PRAGMA", "CALL", "MULTI"})
_CHANGING = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE_INTO", "COPY"})
_OTHERS = frozenset({"CREATE", "DROP", "ALTER", "VACUUM", "SET", "VARIABLE_SET", "ANALYZE"})
_SETTINGS = {
    "threads": str(THREADS),
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "allow_persistent_secrets": "false",
    # Otherwise a table name would find variables of this very program.
    "python_enable_replacements": "false",
    "python_scan_all_frames": "false",
}
_LEAST_MEMORY = 16


def settings_of(context: TaskContext, folder: Path) -> dict[str, Any]:
    """Return the settings of a task's DuckDB.

    What does not fit into its memory goes to ``folder``.
    """
    memory = max(_LEAST_MEMORY, context.settings.duckdb_memory_bytes // 2**20)
    return {**_SETTINGS, "memory_limit": f"{memory}MiB", "temp_directory": str(folder / "duckdb")}


_ADVICE = re.compile(
    r"\n(?:Possible |Try |This type was |Column \w+ is being|[ \t]*file = |LINE 1: CREATE TEMP VIEW)"
)


class Session:
    """A connection while one task uses it."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, context: TaskContext, folders: Folders, deadline: float
    ) -> None:
        self._deadline = deadline
        self._connection = connection
        self._context = context
        self._folders = folders

    def run(self, statement: RenderedStatement, *, keep: bool, names_files: bool = True) -> dict[str, Any]:
        """Run a statement; return ``{columns, rows, row_count}`` and/or ``{affected_rows}``.

        ``names_files``: False for the kind's own statements, which name no files and may be long. Raises TaskError.
        """
        self._refuse_late()
        kind = self._kind_of(statement)
        text, used = _bound(self._placed(statement) if names_files else statement)
        try:
            self._connection.execute(text, used or None)
            return self._read(kind, keep)
        except duckdb.Error as error:
            raise failure_of(error, text) from error

    def save(self, statement: RenderedStatement, format: str, path: Path) -> tuple[int, list[str]]:
        """Write the rows of a query to ``path``; return their number and their columns.

        ``path`` is one of those that this session may write. ``format``: parquet, csv or jsonl. Raises TaskError.
        """
        self._refuse_late()
        if self._kind_of(statement) != "SELECT":
            raise TaskError(
                f"only rows of a query can be written as {format}, and the last statement is none",
                kind="client_error",
                code="not_a_query",
                hint="end with a SELECT, or leave `result` out",
            )
        text, used = _bound(self._placed(statement))
        try:
            columns = self._connection.execute(f"FROM ({text}) LIMIT 0", used or None).description or []
            chosen = " ".join(["SELECT", _plain_columns(columns, format), f"FROM ({text})"])
            parquet = parquet_options(self._context.artifacts.redaction())
            options = {"csv": "FORMAT csv, HEADER", "jsonl": "FORMAT json"}.get(format, parquet)
            counted = self._connection.execute(
                f"COPY ({chosen}) TO {literal(str(path))} ({options})", used or None
            )
            return (counted.fetchone() or (0,))[0], unique_names([column[0] for column in columns])
        except duckdb.Error as error:
            raise failure_of(error, text) from error

    def _placed(self, statement: RenderedStatement) -> RenderedStatement:
        """Relative names of files as what they mean."""
        try:
            return place_files(statement, self._folders)
        except TemplateError as error:  # a text that takes too long to look through
            raise TaskError(
                f"{error.message}: {first_line(statement.text)}",
                kind="schema",
                code="sql_params",
                hint="rows belong into `sources`, or into `table` with `args`, and not into the text",
            ) from None

    def _refuse_late(self) -> None:
        """Refuse a statement after the deadline.

        An interruption that comes between two statements would find nothing to interrupt.
        """
        if time.monotonic() >= self._deadline:
            raise _too_slow(self._context)
        if self._context.cancelled():
            raise TaskError(
                "the execution was cancelled; its statements were stopped", kind="cancelled", code="cancelled"
            )

    def _kind_of(self, statement: RenderedStatement) -> str:
        """Return DuckDB's own word for the statement's kind.

        Raises TaskError for what a task may not do.
        """
        text = native_text(statement, lambda name: f"${name}")
        _refuse_surrogates(text)
        try:
            kinds = [found.type.name for found in self._connection.extract_statements(text)]
        except duckdb.Error as error:
            raise failure_of(error, text) from error
        kind = kinds[0] if len(kinds) == 1 else "several statements"
        if kind in ("PRAGMA", "CALL") and "import_database" in text.lower():
            kind = "IMPORT"  # it runs statements of a file, which nothing here has looked at
        word = (re.match(r"\W*(\w+)", text) or [""])[0].strip().upper()
        if kind == "TRANSACTION":
            raise TaskError(
                f"{word} is not possible in a task: its statements already run in one transaction",
                kind="client_error",
                code="transaction_control",
                hint="leave it out",
            )
        if kind not in _READING | _CHANGING | _OTHERS or (kind == "PRAGMA" and word != "PRAGMA"):
            raise TaskError(
                f"{word or kind} is not possible in a task: {first_line(text)}",
                kind="storage_access",
                code="statement_refused",
                hint="a task reads files of its folders; it attaches no database and installs nothing",
            )
        return kind

    def _read(self, kind: str, keep: bool) -> dict[str, Any]:
        connection = self._connection
        if kind in _OTHERS or (kind in _CHANGING and connection.rowcount >= 0):
            return {"affected_rows": max(0, connection.rowcount)}
        described = connection.description or []
        table = Table([column[0] for column in described], self._context.settings.output_max_bytes, keep=keep)
        readers = json_readers(column[1] for column in described)
        while rows := connection.fetchmany(CHUNK_ROWS):
            table.add([with_documents(row, readers) for row in rows] if readers else rows)
            self._refuse_late()
        if kind in _CHANGING:
            return {**table.result(), "affected_rows": table.row_count}
        return table.result()


def _bound(statement: RenderedStatement) -> tuple[str, dict[str, Any]]:
    """Return the text with DuckDB's placeholders, and the values that it uses."""
    used: dict[str, Any] = {}

    def placeholder(name: str) -> str:
        used[name] = statement.params[name]
        return f"${name}"

    return native_text(statement, placeholder), used


def _plain_columns(columns: Sequence[Any], format: str) -> str:
    """Select all columns as other kinds read them.

    Parquet keeps its own types. In text, nested values are written as JSON and blobs as base64.
    """
    if format == "parquet":
        return "*"
    changed = []
    for column in columns:
        name, kind = name_of(column[0]), str(column[1])
        if kind == "BLOB":
            changed.append(f"to_base64({name}) AS {name}")
        elif format == "csv" and (kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION"))):
            changed.append(f"to_json({name}) AS {name}")
    return f"* REPLACE ({', '.join(changed)})" if changed else "*"


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TaskError(
            "the statement contains half a character (a lone surrogate), which UTF-8 cannot hold",
            kind="client_error",
            code="text_invalid",
        ) from None


@contextmanager
def open_session(
    database: Database | None,
    context: TaskContext,
    tables: Sequence[SourceTable] = (),
    *,
    folder: Path,
    output: Path | None = None,
) -> Iterator[Session]:
    """Open a session in memory, or on a database file. All of it is one transaction.

    ``tables``: views over files that the task may read; ``folder``: where memory spills to; ``output``: a file to write results to.
    Raises TaskError; ``db_timeout`` once the task's time is up.
    """
    deadline = time.monotonic() + context.timeout
    folders = Folders.of(context.settings)
    files = [*(file for table in tables for file in table.files), *([str(output)] if output else [])]
    with (
        _exclusive(database, deadline),
        _connected(database, context, folders, folder, files) as connection,
        CallDeadline(deadline, connection.interrupt) as alarm,
    ):
        try:
            connection.begin()
            for table in tables:
                _view(connection, table)
            yield Session(connection, context, folders, deadline)
            connection.commit()
        except (TaskError, duckdb.Error) as error:
            if alarm.rang:
                raise _too_slow(context) from error
            if isinstance(error, duckdb.Error):
                raise failure_of(error, "COMMIT") from error
            _name_sources(error, tables)
            raise


def _name_sources(error: TaskError, tables: Sequence[SourceTable]) -> None:
    """Replace file paths in an error by the playbook's names of the sources.

    DuckDB's advice is left out, because it names options that the kind does not have.
    """
    for table in tables:
        for file in table.files:
            if file in error.message:
                named = f"the source {table.name!r}"
                message = _ADVICE.split(error.message.replace(file, named))[0].rstrip()
                error.message = message if named in message else f"{named}: {message}"
                error.hint = error.hint or (
                    f"is it whole, and of the format that `sources.{table.name}` says? `columns: {{name: TYPE}}` there sets types"
                )
                error.details.setdefault("source", table.name)


def _view(connection: duckdb.DuckDBPyConnection, table: SourceTable) -> None:
    """Make a view of this session alone: nothing of it stays in a database file."""
    name = name_of(table.name)
    try:
        connection.execute(f"CREATE TEMP VIEW {name} AS {table.select}")
        if table.wide and _is_one_map(connection, table.name):
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {table.wide}")
    except duckdb.Error as error:
        found = failure_of(error, "")
        found.message = f"the source {table.name!r} cannot be read: {found.message}"
        found.details["source"] = table.name
        raise found from error


def _is_one_map(connection: duckdb.DuckDBPyConnection, view: str) -> bool:
    """Rows of very many columns look to DuckDB like a mapping each, which it calls ``json``."""
    text = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? AND schema_name = 'main' AND database_name = 'temp'"
    found = connection.execute(text, [view]).fetchall()
    return len(found) == 1 and found[0][0] == "json" and str(found[0][1]).startswith("MAP(")


def _too_slow(context: TaskContext) -> TaskError:
    return TaskError(
        f"the statements took longer than {context.timeout:g} s and were stopped",
        kind="db_timeout",
        code="timeout",
    )


@contextmanager
def _connected(
    database: Database | None, context: TaskContext, folders: Folders, folder: Path, files: Sequence[str]
) -> Iterator[duckdb.DuckDBPyConnection]:
    place = ":memory:" if database is None else str(database.path)
    copied = database is not None and database.copied
    try:
        connection = duckdb.connect(place, read_only=copied, config=settings_of(context, folder))
    except duckdb.Error as error:
        raise failure_of(error, "") from error
    try:
        # The lock comes last: from here on not even the task's own SQL can open anything else.
        allowed = list(folders.open)
        directories = [path for path in allowed if Path(path).is_dir()]
        plain = [path for path in allowed if not Path(path).is_dir()]
        for setting, names in (("allowed_directories", directories), ("allowed_paths", [*plain, *files])):
            if names:
                connection.execute(f"SET {setting} = [{', '.join(map(literal, names))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection
    finally:
        connection.close()


_files: dict[str, threading.Lock] = {}
_files_lock = threading.Lock()


@contextmanager
def _exclusive(database: Database | None, deadline: float) -> Iterator[None]:
    """Admit one user of a database file at a time in this process.

    DuckDB itself keeps other processes out.
    """
    if database is None or database.copied:
        yield
        return
    path = database.path
    with _files_lock:
        lock = _files.setdefault(str(path), threading.Lock())
    if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise TaskError(
            f"the database {path.name} is in use by another task",
            kind="db_timeout",
            code="database_locked",
            retryable=True,
        )
    try:
        yield
    finally:
        lock.release()


_KINDS: tuple[tuple[type[duckdb.Error], str, str], ...] = (
    (duckdb.PermissionException, "storage_access", "access_refused"),
    (duckdb.OutOfMemoryException, "storage_quota", "out_of_memory"),
    (duckdb.ConstraintException, "db_constraint", "constraint"),
    (duckdb.InterruptException, "db_timeout", "timeout"),
    (duckdb.ParserException, "client_error", "parser"),
    (duckdb.CatalogException, "client_error", "catalog"),
    (duckdb.BinderException, "client_error", "binder"),
    (duckdb.ConversionException, "client_error", "conversion"),
    (duckdb.OutOfRangeException, "client_error", "out_of_range"),
    (duckdb.InternalException, "server_error", "internal"),
    (duckdb.FatalException, "server_error", "fatal"),
    (duckdb.IOException, "storage_access", "io"),
)


_READ_ALONE = "a `database` with folders in its name is read as a copy; a name without them is kept in the work folder, where it can be changed"


def failure_of(error: duckdb.Error, text: str) -> TaskError:
    """Convert DuckDB's error; its message points at the place in the statement."""
    text_of_error = str(error).partition("\n\nStack Trace:")[0]
    message = text_of_error.strip()[:800] + (
        f"\nin: {first_line(text)}" if text and "LINE " not in text_of_error else ""
    )
    if "configuration has been locked" in text_of_error:
        return TaskError(message, kind="storage_access", code="configuration_locked")
    if "attached in read-only mode" in text_of_error:
        return TaskError(message, kind="storage_access", code="write_refused", hint=_READ_ALONE)
    if "No files found that match" in text_of_error:
        return TaskError(message, kind="not_found", code="file_not_found")
    if "Could not set lock on file" in text_of_error:
        return TaskError(message, kind="db_connection", code="database_locked", retryable=True)
    kind, code = next(
        ((kind, code) for family, kind, code in _KINDS if isinstance(error, family)),
        ("client_error", "duckdb"),
    )
    return TaskError(message, kind=kind, code=code)
