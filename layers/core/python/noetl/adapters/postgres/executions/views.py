"""Progress of an execution, from Postgres.

The reads stay small for any number of items of its loops.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from noetl.adapters.postgres.executions import row_mappers
from noetl.adapters.postgres.executions.limit_store import PostgresLimits
from noetl.adapters.postgres.literals import flag, name, number, numbers, texts, unname
from noetl.domain import codec
from noetl.domain.kinds import UNCALLED_KINDS
from noetl.ports.executions.execution_store import (
    NEWEST,
    PULSE_LOOPS,
    Ending,
    ItemBands,
    ItemWork,
    Pulse,
    StoredEvent,
)


class PostgresLooking(PostgresLimits):
    def endings(self, execution_ids: Sequence[int]) -> Mapping[int, Ending]:
        rows = self.database.run("endings", {"execution_ids": numbers(execution_ids)})
        return {one.info.execution_id: one for one in map(row_mappers.ending, rows)}

    def pulses(self, execution_ids: Sequence[int]) -> Mapping[int, Pulse]:
        values = {
            "execution_ids": numbers([one for one in execution_ids if one != NEWEST]),
            "newest": flag(NEWEST in execution_ids),
            "loops": number(PULSE_LOOPS),
        }
        return dict(map(row_mappers.pulse, self.database.run("pulses", values)))

    def open_work(self, execution_id: int) -> Mapping[str, int]:
        return row_mappers.open_work(
            self.database.run("open_work", {"execution_id": number(execution_id)})
        ).counts

    def failed_items(
        self, execution_id: int, run: int, limit: int, *, after: int = -1
    ) -> Sequence[StoredEvent]:
        values = {
            "execution_id": number(execution_id),
            "run": number(run),
            "after": number(after),
            "limit": number(limit),
        }
        return [row_mappers.event(row) for row in self.database.run("failed_items", values)]

    def item_bands(self, execution_id: int, run: int, bands: int) -> ItemBands | None:
        values = {"execution_id": number(execution_id), "run": number(run), "bands": number(bands)}
        return row_mappers.item_bands(self.database.run("item_bands", values))

    def item_work(self, execution_id: int, limit: int) -> Sequence[ItemWork]:
        values = {
            "execution_id": number(execution_id),
            "limit": number(limit),
            "uncalled": texts(sorted(UNCALLED_KINDS)),
        }
        return [row_mappers.item_work(row) for row in self.database.run("item_work", values)]

    def left_steps(self, execution_id: int, names: Sequence[str]) -> Collection[str]:
        values = {"execution_id": number(execution_id), "names": texts([name(one) for one in names])}
        return {unname((found or b"").decode()) for (found,) in self.database.run("left_steps", values)}

    def status_counts(self, limit: int) -> Mapping[str, int]:
        rows = self.database.run("status_counts", {"limit": number(limit)})
        return {(status or b"").decode(): int(count or b"0") for status, count in rows}

    def events_before(self, execution_id: int, before: int, limit: int) -> Sequence[StoredEvent]:
        values = {
            "execution_id": number(execution_id),
            "before": number(before),
            "limit": number(limit),
        }
        return [row_mappers.event(row) for row in self.database.run("main_events_before", values)]

    def step_events(self, execution_id: int, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        values = {"execution_id": number(execution_id), "after": number(after), "limit": number(limit)}
        return [row_mappers.event(row) for row in self.database.run("step_events", values)]

    def callback_slots(self, execution_id: int, runs: Sequence[int], limit: int) -> Mapping[str, Any]:
        values = {"execution_id": number(execution_id), "runs": numbers(runs), "limit": number(limit)}
        rows = self.database.run("callback_slots", values)
        return {unname((place or b"").decode()): codec.decode(value or b"") for place, value in rows}
