"""Port of read-only SQL over the views of history."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class SqlColumn(msgspec.Struct, frozen=True):
    """A column of an answer. ``type``: its name in Postgres."""

    name: str
    type: str


class SqlTable(msgspec.Struct, frozen=True):
    """Rows of a query.

    ``truncated``: there are more than its limit of rows or bytes lets through.
    """

    columns: list[SqlColumn]
    rows: list[list[Any]]
    truncated: bool


class HistorySql(Protocol):
    """Runs one reading statement with the rights of a role that can read the views alone."""

    def run(self, text: str, limit: int) -> SqlTable:
        """Run ``text`` and return at most ``limit`` rows.

        Raises InvalidInputError for a statement that is wrong (``sql_invalid``, with line and column), that takes too long
        (``sql_timeout``) or needs too much memory or disk (``sql_too_large``), OverloadedError when too many run, and InfrastructureError.
        """
