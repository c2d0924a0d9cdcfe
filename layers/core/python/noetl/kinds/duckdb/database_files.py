"""Database files of a task: those in the work folder, and copies of others."""

from __future__ import annotations

import fcntl
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext
from noetl.kinds.support.paths import locate, open_file, resolve_inside

_IS_PATH = re.compile(r"[^/\0]{0,255}/")
"""Begins a ``database`` that names folders; any other is a name in the work folder."""
_CHUNK = 1 << 20
_LOG = ".wal"
"""Ending of what DuckDB has written and not yet put into the file."""


@dataclass(frozen=True, slots=True)
class Database:
    path: Path
    copied: bool = False
    """It is a copy for this task, which changes nothing."""


def database_of(name: str | None, context: TaskContext, folder: Path, until: float) -> Database | None:
    """Return the database that ``name`` means, None for one in memory.

    DuckDB opens a file by its name, and tasks may change where a name in a given folder leads. So a file of the task's folders is copied
    into ``folder``. Raises TaskError.
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
    return Database(resolve_inside(f"{name.removesuffix('.duckdb')}.duckdb", [work], must_exist=False))


def _copied(name: str, context: TaskContext, folder: Path, until: float) -> Path:
    """Copy a database with its log, and return the copy, which has its name."""
    try:
        path = locate(name, context.settings)
    except TaskError as error:
        if error.code == "path_outside":
            error.hint = "give its folder: noetl run --task-folder DIR; a name without folders is kept in the work folder"
        raise
    folder.mkdir()
    place = folder / path.name
    with open_file(path) as stream:
        try:
            # As DuckDB does it: whoever changes the file has it locked, so that no half of a change is copied.
            fcntl.lockf(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            raise TaskError(
                f"the database {name!r} is in use by another process",
                kind="db_connection",
                code="database_locked",
                retryable=True,
            ) from None
        _copy(stream, place, name, context, until)
        log = path.with_name(path.name + _LOG)
        if log.exists():
            with open_file(log) as written:
                _copy(written, place.with_name(place.name + _LOG), name, context, until)
    return place


def _copy(stream: BinaryIO, place: Path, name: str, context: TaskContext, until: float) -> None:
    with place.open("wb") as out:
        while piece := stream.read(_CHUNK):
            out.write(piece)
            if context.cancelled():
                raise TaskError(
                    f"the execution was cancelled while {name!r} was read", kind="cancelled", code="cancelled"
                )
            if time.monotonic() > until:
                raise TaskError(
                    f"{name!r} was not read within {context.timeout:g} s", kind="timeout", code="timeout"
                )
