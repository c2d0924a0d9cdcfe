"""Variables of executions in Postgres: the table ``transient``.

The execution store writes the rows that ``variable_rows`` makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.literals import for_jsonb, number, text, unname
from noetl.adapters.postgres.literals import name as stored_name
from noetl.domain import codec
from noetl.domain.variables import Variable, VariableType, VariableWrite


class PostgresVariables:
    """``database``: a connection string, or a Database shared with other adapters."""

    def __init__(self, database: str | Database, *, pooled: bool = False) -> None:
        self._database = Database(database, pooled=pooled) if isinstance(database, str) else database

    def close(self) -> None:
        self._database.close()

    def variables(self, execution_id: int) -> Sequence[Variable]:
        rows = self._database.run("variables", {"execution_id": number(execution_id)})
        return [_variable(row) for row in rows]

    def read_variable(self, execution_id: int, name: str) -> Variable | None:
        values = {"execution_id": number(execution_id), "name": text(stored_name(name))}
        rows = self._database.run("read_variable", values)
        return _variable(rows[0]) if rows else None


def variable_rows(execution_id: int, writes: Iterable[VariableWrite]) -> list[dict[str, Any]]:
    """Return the last write of each name; a value that is null in SQL deletes the row."""
    return [
        {
            "execution": execution_id,
            "name": stored_name(write.name),
            "type": write.type,
            "value": None if write.deleted else for_jsonb(codec.encode(write.value)),
            "step": stored_name(write.step) or None,
        }
        for write in {write.name: write for write in writes}.values()
    ]


def _variable(row: Row) -> Variable:
    name, value, kind, step, count, created, accessed = row
    return Variable(
        unname((name or b"").decode()),
        codec.decode(value or b"null"),
        cast(VariableType, (kind or b"").decode()),
        None if step is None else unname(step.decode()),
        int(count or 0),
        float(created or 0),
        float(accessed or 0),
    )
