"""What goes from Postgres when its time is over."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.literals import number, numbers, texts
from noetl.domain import ids
from noetl.ports.retention import Expired, Listed, Removed


class PostgresRetention:
    """``database``: shared with other adapters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, before: float, limit: int) -> Sequence[int]:
        return self._ids("claim_old_executions", before, limit)

    def old(self, before: float, limit: int) -> Sequence[int]:
        return self._ids("old_executions", before, limit)

    def _ids(self, query: str, before: float, limit: int) -> list[int]:
        rows = self._database.run(query, {"before": number(before), "limit": number(limit)})
        return [int(row[0] or 0) for row in rows]

    def remove_events(self, execution_ids: Sequence[int], limit: int) -> int:
        values: dict[str, bytes | None] = {"ids": numbers(execution_ids), "limit": number(limit)}
        return int(self._database.run("remove_events", values)[0][0] or 0)

    def remove(self, execution_ids: Sequence[int]) -> Removed:
        rows = self._database.run("remove_executions", {"ids": numbers(execution_ids)})
        return Removed(*(int(count or 0) for count in rows[0]))

    def claim_expired(self, now: float, after: int, limit: int) -> Expired:
        values: dict[str, bytes | None] = {"now": number(now), "after": number(after), "limit": number(limit)}
        rows = self._database.run("claim_expired_results", values)
        last = [int(row[0]) for row in rows if row[1] is None and row[0] is not None]
        return Expired(
            tuple(map(_listed, filter(lambda row: row[1] is not None, rows))), last[0] if last else None
        )

    def permanent(self, before: float, limit: int) -> Sequence[Listed]:
        rows = self._database.run("permanent_results", {"before": number(before), "limit": number(limit)})
        return [_listed(row) for row in rows]

    def forget_results(self, results: Sequence[Listed]) -> int:
        values: dict[str, bytes | None] = {
            "ids": numbers([execution_id for execution_id, _, _ in results]),
            "refs": texts([ref for _, ref, _ in results]),
        }
        return int(self._database.run("forget_results", values)[0][0] or 0)

    def remove_variables(self, before: float, limit: int) -> int:
        young = number(ids.execution_id(max(int(before * 1000), ids.EPOCH_MS), 0))
        values: dict[str, bytes | None] = {"before": number(before), "young": young, "limit": number(limit)}
        return int(self._database.run("remove_variables", values)[0][0] or 0)

    def remove_moments(self, before: float, limit: int) -> int:
        values: dict[str, bytes | None] = {"before": number(before), "limit": number(limit)}
        return int(self._database.run("remove_schedule_moments", values)[0][0] or 0)


def _listed(row: Row) -> Listed:
    execution, ref, store = row
    return int(execution or 0), (ref or b"").decode(), (store or b"").decode()
