"""Progress and outcomes of executions in memory: what lists, status and results read."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from noetl.adapters.memory.execution_trees import fits, info_of
from noetl.adapters.memory.limit_store import MemoryLimits
from noetl.adapters.memory.tables import ExecutionEntry
from noetl.domain import codec, ids
from noetl.domain.callbacks import SCOPE
from noetl.ports.executions.answers import EVERY
from noetl.ports.executions.execution_store import (
    NEWEST,
    PULSE_LOOPS,
    Ending,
    ExecutionFilter,
    ExecutionInfo,
    ItemBand,
    ItemBands,
    LoopPulse,
    Pulse,
)


class MemoryLooking(MemoryLimits):
    def info(self, execution_id: int) -> ExecutionInfo | None:
        with self._lock:
            entry = self._tables.executions.get(execution_id)
            return None if entry is None else info_of(entry, self._tables.clock())

    def endings(self, execution_ids: Sequence[int]) -> Mapping[int, Ending]:
        with self._lock:
            found = [self._tables.executions[one] for one in execution_ids if one in self._tables.executions]
            now = self._tables.clock()
            return {entry.execution_id: self._ending(entry, now) for entry in found}

    def pulses(self, execution_ids: Sequence[int]) -> Mapping[int, Pulse]:
        with self._lock:
            executions = self._tables.executions
            found = {one: self._pulse(executions[one]) for one in execution_ids if one in executions}
            if NEWEST in execution_ids:
                seen = codec.encode(sorted((one.execution_id, one.status) for one in executions.values()))
                found[NEWEST] = Pulse(zlib.crc32(seen), 0, "running")
            return found

    def _pulse(self, entry: ExecutionEntry) -> Pulse:
        work = self._tables.work[entry.execution_id]
        seq = max((row.seq for row in work.history.values() if row.lane == 0), default=0)
        newest = sorted(work.loops.items(), reverse=True)[:PULSE_LOOPS]
        loops = [
            LoopPulse(run, number, one.row.step, one.done, one.failed, one.row.total)
            for (run, number), one in newest
        ]
        return Pulse(entry.version, seq, entry.status, loops)

    def _ending(self, entry: ExecutionEntry, now: float) -> Ending:
        work = self._tables.work[entry.execution_id]
        main = [row for row in work.history.values() if row.lane == 0]
        if entry.status != "completed" or not main:
            return Ending(info_of(entry, now))
        facts = max(main, key=lambda row: row.seq).facts
        slots = {
            name: codec.decode(value)
            for (scope, name), value in work.slots.items()
            if scope == "step" and codec.encode(name) in facts
        }
        return Ending(info_of(entry, now), facts, slots)

    def executions(
        self,
        *,
        limit: int,
        before: int | None = None,
        status: str | None = None,
        wanted: ExecutionFilter = EVERY,
    ) -> Sequence[ExecutionInfo]:
        with self._lock:
            now = self._tables.clock()
            newest = sorted(self._tables.executions.values(), key=lambda entry: -entry.execution_id)
            return [
                info_of(entry, now)
                for entry in newest
                if (before is None or entry.execution_id < before)
                and status in (None, entry.status)
                and fits(entry, wanted, self._tables)
            ][:limit]

    def item_bands(self, execution_id: int, run: int, bands: int) -> ItemBands | None:
        with self._lock:
            history = self._tables.work[execution_id].history.values()
            ends = [(row.at, row) for row in history if row.lane == run > 0 and ids.ends_item(row.event_id)]
        if not ends:
            return None
        low, high = min(at for at, _ in ends), max(at for at, _ in ends)
        found: dict[int, ItemBand] = {}
        for at, row in ends:
            band = min(bands - 1, int((at - low) / (high - low) * bands)) if high > low else 0
            before = found.get(band, ItemBand(band, 0, 0, row.seq))
            failed = row.type == "call.error"
            found[band] = ItemBand(
                band, before.done + (not failed), before.failed + failed, min(before.first, row.seq)
            )
        return ItemBands(low, high, [found[band] for band in sorted(found)])

    def slots(self, execution_id: int) -> Mapping[tuple[str, str], Any]:
        with self._lock:
            return {key: codec.decode(value) for key, value in self._tables.work[execution_id].slots.items()}

    def callback_slots(self, execution_id: int, runs: Sequence[int], limit: int) -> Mapping[str, Any]:
        places = sorted(place for scope, place in self.slots(execution_id) if scope == SCOPE)
        own = [place for place in places if place in map(str, runs)]
        items = [[place for place in places if place.startswith(f"{run}.")][:limit] for run in runs]
        slots = self.slots(execution_id)
        return {place: slots[SCOPE, place] for place in [*own, *chain.from_iterable(items)]}
