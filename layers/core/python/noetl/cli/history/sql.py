"""``noetl sql``: read-only SQL over history."""

from __future__ import annotations

import csv
import io
import sys
from typing import Any

from noetl.cli import errors
from noetl.cli.client.connect import open_place
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import note, out, out_json, out_line, table
from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.text.excerpt import excerpt
from noetl.ports.history_sql import SqlTable

MOST_CHARACTERS = 80
"""Of a value in a table; JSON and CSV have all of it."""


def show(query: str, *, as_json: bool, as_csv: bool, limit: int, at: CommandTarget) -> int:
    """Print the rows of a query."""
    if as_json and as_csv:
        raise InvalidInputError("--json and --csv exclude each other", code="usage")
    text = sys.stdin.read() if query == "-" else query
    with open_place(at) as place:
        found = place.sql(text, limit)
    if as_json:
        out_json(found)
    elif as_csv:
        _print_csv(found)
    else:
        names = tuple(column.name for column in found.columns)
        out(table(names, [tuple(_cell(value) for value in row) for row in found.rows]))
    if found.truncated:
        note(f"there are more rows than these {len(found.rows)}: see --limit")
    return errors.DONE


def _print_csv(found: SqlTable) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([column.name for column in found.columns])
    writer.writerows([[_whole(value) for value in row] for row in found.rows])
    for line in text.getvalue().splitlines():
        out_line(line)


def _whole(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else codec.encode(value).decode()


def _cell(value: Any) -> str:
    return excerpt(" ".join(_whole(value).split()), MOST_CHARACTERS)
