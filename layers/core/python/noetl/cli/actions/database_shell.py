"""``noetl db shell``: SQL on the engine's database."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from noetl.cli import errors
from noetl.cli.client import runtime_access
from noetl.cli.commands import database
from noetl.cli.commands.database import open_database, place
from noetl.cli.render.output import note, out, out_json, table
from noetl.domain.errors import InvalidInputError
from noetl.domain.text.excerpt import excerpt

_CELL = 80
_PROMPT = "noetl=> "


def shell(command: str | None, *, write: bool, scratch: bool, as_json: bool, home: str | None) -> int:
    """Run SQL: ``command``, or what is typed.

    It uses `psql` where there is one and a terminal, else it reads line by line.

    Everything is read only unless ``write``: rows of the engine belong to the engine. ``scratch``: on the database that
    `postgres` tasks without a credential use. Raises InvalidInputError.
    """
    settings = runtime_access.settings(home)
    with open_database(settings) as engine:
        dsn = _scratch(settings) if scratch else engine
        if command is not None:
            return _print(dsn, command, write=write, as_json=as_json)
        psql = shutil.which("psql")
        if psql is not None and sys.stdin.isatty():
            note(
                f"{'scratch database of ' if scratch else ''}{place(settings)}{'' if write else ', read only (--write changes that)'}"
            )
            environment = dict(os.environ) if write else {**os.environ, "PGOPTIONS": _READ_ONLY}
            return subprocess.run([psql, dsn], env=environment, check=False).returncode
        return _read_lines(dsn, write=write, as_json=as_json)


def _scratch(settings: Any) -> str:
    found = database.scratch(settings)
    if found is None:
        raise InvalidInputError(
            "there is no scratch database: NOETL_DATABASE_URL names the server of another installation",
            code="no_scratch",
            hint="only the embedded server has one; use `psql` with the credential that the task names",
        )
    return found


_READ_ONLY = "-c default_transaction_read_only=on"


def _read_lines(dsn: str, *, write: bool, as_json: bool) -> int:
    """Statements from stdin, each up to a line that ends with a semicolon."""
    worst = errors.DONE
    for statement in _statements():
        try:
            _print(dsn, statement, write=write, as_json=as_json)
        except InvalidInputError as error:
            note(errors.describe(error))
            worst = errors.USAGE
    return worst


def _statements() -> Iterator[str]:
    lines: list[str] = []
    asks = sys.stdin.isatty()
    while True:
        if asks:
            print(_PROMPT if not lines else "   ...> ", end="", file=sys.stderr, flush=True)  # noqa: T201
        line = sys.stdin.readline()
        if line.strip() in ("\\q", "exit", "quit"):
            return
        lines.append(line)
        if not line or line.rstrip().endswith(";"):
            statement = "".join(lines).strip()
            lines = []
            if statement:
                yield statement
        if not line:
            return


def _print(dsn: str, statement: str, *, write: bool, as_json: bool) -> int:
    columns, rows, summary = _run(dsn, statement, write=write)
    if as_json:
        for row in rows:
            out_json(dict(zip(columns, row, strict=True)))
    elif columns:
        out(table(columns, [[_cell(value) for value in row] for row in rows]))
        out(f"({len(rows):,} row{'' if len(rows) == 1 else 's'})")
    else:
        out(summary)
    return errors.DONE


def _run(dsn: str, statement: str, *, write: bool) -> tuple[list[str], list[tuple[Any, ...]], str]:
    """Raises InvalidInputError(code="sql_error") and InfrastructureError."""
    import psycopg

    try:
        with psycopg.connect(dsn, connect_timeout=10, prepare_threshold=None) as connection:
            connection.read_only = not write
            cursor = connection.execute(statement.encode())
            columns = [column.name for column in cursor.description or ()]
            return columns, cursor.fetchall() if columns else [], cursor.statusmessage or ""
    except psycopg.OperationalError as error:
        raise database.unusable(error, dsn, "noetl db status shows where it is") from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise InvalidInputError(
            str(error).strip(), code="read_only", hint="noetl db shell --write lets statements change rows"
        ) from error
    except psycopg.Error as error:
        raise InvalidInputError(str(error).strip(), code="sql_error") from error


def _cell(value: Any) -> str:
    return "" if value is None else excerpt(" ".join(str(value).split()), _CELL)
