"""What goes from Postgres when its time is over."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.literals import number, numbers, texts
from noetl.domain import ids
from noetl.ports.executions.retention import NOTHING, Expired, HistoryLayout, Listed, Removed

PARTS = 6
"""Partitions of history in the time for which executions are kept. More of them cost every read of history a little, fewer cost disk: what is
dropped next takes the space of one."""
LEAST_WIDTH = 3600.0
"""Least seconds of history in a partition."""
AHEAD = 2
"""Partitions that are made ahead: maintenance may fail for as long as two of them last."""
MOST_READ = 256 << 20
"""Bytes of the last partition that Postgres may read while every commit waits: about a second."""
MOST_MOVED = 10_000
"""Most rows, and kilobytes, of remaining executions that are copied when their partition is dropped: a tenth of a second without commits."""
ROUND = 3600.0
"""Most seconds that one round of maintenance lasts."""
SWEPT = 10_000
"""Most executions that one statement of a sweep reads, and most rows that it deletes."""


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

    def remove(self, execution_ids: Sequence[int], deferred: range = NOTHING) -> Removed:
        values: dict[str, bytes | None] = {
            "ids": numbers(execution_ids),
            "deferred_from": number(deferred.start),
            "deferred_until": number(deferred.stop),
        }
        return Removed(*(int(count or 0) for count in self._database.run("remove_executions", values)[0]))

    def partition_history(self, now: float, kept: float) -> HistoryLayout:
        lows = [
            ids.begun_at(int(row[0])) for row in self._database.run("history_lows", {}) if row[0] is not None
        ]
        width = max(kept / PARTS, LEAST_WIDTH)
        # Partitions that wait for long executions make later ones wider, so that their number grows with the logarithm of time.
        waiting = sum(low < now - kept - 2 * width for low in lows)
        width *= 2 ** (waiting // PARTS)
        end = max(now, lows[-1]) if lows else now
        answer = "done"
        while answer in ("cut", "done") and end < now + AHEAD * width:
            end += width
            answer = self._answer("cut_history", at=ids.first_id(end), most=MOST_READ)
        overdue = now - kept - width
        values = {
            "overdue": number(ids.first_id(overdue)),
            "soon": number(ids.first_id(now + 2 * AHEAD * width)),
        }
        ((start, stop),) = self._database.run("deferred_history", values)
        # Another process may still defer what this one does not.
        return HistoryLayout(range(int(start or 0), int(stop or 0)), overdue - ROUND, answer == "large")

    def cannot_be_ended(self) -> bool:
        """Return whether the last partition of history is too large to be ended.

        ``partition_history`` ends partitions.
        """
        ((size,),) = self._database.run("history_open", {})
        return int(size or 0) > MOST_READ

    def drop_history(self, before: float, overdue: float) -> bool:
        if self._answer("fold_history", past=ids.first_id(before), most=MOST_MOVED) == "folded":
            return True
        return self._answer("sweep_history", past=ids.first_id(overdue), limit=SWEPT) == "swept"

    def _answer(self, query: str, **values: int) -> str:
        ((answer,),) = self._database.run(query, {name: number(value) for name, value in values.items()})
        return (answer or b"").decode()

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
        young = number(ids.first_id(before))
        values: dict[str, bytes | None] = {"before": number(before), "young": young, "limit": number(limit)}
        return int(self._database.run("remove_variables", values)[0][0] or 0)

    def remove_moments(self, before: float, limit: int) -> int:
        values: dict[str, bytes | None] = {"before": number(before), "limit": number(limit)}
        return int(self._database.run("remove_schedule_moments", values)[0][0] or 0)


def _listed(row: Row) -> Listed:
    execution, ref, store = row
    return int(execution or 0), (ref or b"").decode(), (store or b"").decode()
