"""What is outstanding in Postgres."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.adapters.outstanding import Count, put_together
from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.executions import row_mappers
from noetl.adapters.postgres.literals import number
from noetl.ports.executions.inspection import Backlog, OpenCommand, OpenWork, Outstanding


class PostgresInspection:
    """``database``: shared with other adapters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open_commands(self, execution_id: int, limit: int) -> Sequence[OpenCommand]:
        values: dict[str, bytes | None] = {"execution_id": number(execution_id), "limit": number(limit)}
        return [_open(row) for row in self._database.run("open_commands", values)]

    def open_work(self, execution_id: int) -> OpenWork:
        return row_mappers.open_work(self._database.run("open_work", {"execution_id": number(execution_id)}))

    def outstanding(self, limit: int = 10_000) -> Outstanding:
        """Two round trips."""
        rows = self._database.run("outstanding_commands", {"limit": number(limit)})
        ((events, timers, unreadable),) = self._database.run("outstanding_rest", {})
        found = put_together(map(_count, rows), int(events or 0), int(timers or 0), limit)
        return msgspec.structs.replace(found, unreadable=int(unreadable or 0))

    def backlog(self, most: int) -> Backlog:
        ((events, commands),) = self._database.run("backlog", {"most": number(most)})
        return Backlog(int(events or 0), int(commands or 0))


def _open(row: Row) -> OpenCommand:
    command_id, run, attempt, turn, waiting, owner, alive, due_for, lost, remote = row
    return OpenCommand(
        (command_id or b"").decode(),
        int(run or 0),
        int(attempt or 0),
        int(turn or 0),
        waiting == b"t",
        (owner or b"").decode(),
        alive == b"t",
        float(due_for or 0),
        int(lost or 0),
        remote == b"t",
    )


def _count(row: Row) -> Count:
    pool, owner, due, delayed, suspended, oldest, alive, lease = row
    return Count(
        (pool or b"").decode(),
        (owner or b"").decode(),
        int(due or 0),
        int(delayed or 0),
        int(suspended or 0),
        float(oldest or 0),
        alive == b"t",
        None if lease is None else float(lease),
    )
