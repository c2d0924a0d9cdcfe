"""Database files of a task: those in the work folder, and copies of others."""

from __future__ import annotations

import fcntl
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.kinds.duckdb.copies import pieces_of, write_pieces
from noetl.kinds.support.given_folders import in_given
from noetl.kinds.support.paths import locate, open_file, resolve_inside

_IS_PATH = re.compile(r"[^/\0]{0,255}/")
"""Begins a ``database`` that names folders; any other is a name in the work folder."""
_MAGIC_AT, _MAGIC = 8, b"DUCK"
"""Where a database file of DuckDB says what it is."""
_KEEP = "keep it beside the playbook, or in a folder of NOETL_DATA_DIRS of a worker"
_LOG = ".wal"
"""Ending of what DuckDB has written and not yet put into the file."""


@dataclass(frozen=True, slots=True)
class Database:
    path: Path
    copied: bool = False
    """It is a copy for this task, which changes nothing."""


def database_of(name: str | None, context: TaskContext, folder: Path, until: float) -> Database | None:
    """Return the database that ``name`` means, None for one in memory.

    A file of the folders that tasks may read, and not write, is copied into ``folder``, with what its log has. Raises TaskError.
    """
    if name is not None and _IS_PATH.match(name):
        return Database(_copied(name, context, folder / "database", until), copied=True)
    return kept_database(name, context)


def kept_database(name: str | None, context: TaskContext) -> Database | None:
    """Return the database of the work folder that ``name`` means, None for one in memory.

    Raises TaskError.
    """
    if name is None:
        return None
    work = context.settings.work_dir
    if work is None:
        raise TaskError(
            "this deployment has no work folder for database files",
            kind="storage_access",
            code="write_refused",
            hint="leave `database` out to work in memory",
        )
    Path(work).mkdir(parents=True, exist_ok=True)
    path = resolve_inside(f"{name.removesuffix('.duckdb')}.duckdb", [work], must_exist=False)
    if path.exists():
        with open_file(path) as stream:
            _refuse_foreign(stream, name)
    return Database(path)


def _refuse_foreign(stream: BinaryIO, name: str) -> None:
    """Refuse a file of another program.

    DuckDB would look for the extension that reads it. Raises TaskError.
    """
    begin = stream.read(_MAGIC_AT + len(_MAGIC))
    stream.seek(0)
    if begin and begin[_MAGIC_AT:] != _MAGIC:
        raise TaskError(
            f"{name!r} is no database of DuckDB",
            kind="client_error",
            code="database_invalid",
            hint="read other files with `sources`, or by name: FROM 'file.csv'",
        )


def _copied(name: str, context: TaskContext, folder: Path, until: float) -> Path:
    """Copy a database with its log, and return the copy, which has its name."""
    try:
        path = locate(name, context.settings)
    except TaskError as error:
        if error.code == "path_outside":
            error.hint = f"{_KEEP}; a name without folders is kept in the work folder"
        raise
    work = context.settings.work_dir
    changing = [*context.settings.task_folders, *([work] if work else [])]
    if in_given(str(path), changing):
        # A file made by hostile hands can crash DuckDB, and with it the worker.
        raise TaskError(
            f"{name!r} is in a folder that tasks may write to, where duckdb opens no database",
            kind="storage_access",
            code="path_outside",
            hint=_KEEP,
        )
    folder.mkdir()
    place = folder / path.name
    with open_file(path) as stream:
        _refuse_foreign(stream, name)
        try:
            # As DuckDB does it: a process that changes the file has it locked, so that no half of a change is copied.
            fcntl.lockf(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            raise TaskError(
                f"the database {name!r} is in use by another process",
                kind="db_connection",
                code="database_locked",
                retryable=True,
            ) from None
        write_pieces(pieces_of(stream), place, repr(name), context, until)
        log = path.with_name(path.name + _LOG)
        if log.exists():
            with open_file(log) as written:
                write_pieces(
                    pieces_of(written), place.with_name(place.name + _LOG), repr(name), context, until
                )
    return place
