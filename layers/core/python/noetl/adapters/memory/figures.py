"""Figures about many executions, in memory."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from noetl.adapters.memory.execution_trees import failure_code
from noetl.adapters.memory.tables import ExecutionEntry
from noetl.adapters.memory.views import MemoryLooking
from noetl.domain import codec
from noetl.domain.callbacks import SCOPE
from noetl.ports.executions.figures import Bucket, EndedWindow, FailureGroup, Looked, PathBucket


class MemoryFigures(MemoryLooking):
    def ended_buckets(self, window: EndedWindow, seconds: int) -> tuple[Looked, Sequence[Bucket]]:
        looked, ended = self._roots(window)
        by_time: defaultdict[float, list[ExecutionEntry]] = defaultdict(list)
        for one in ended:
            by_time[math.floor((one.ended_at or 0.0) / seconds) * float(seconds)].append(one)
        return looked, [_bucket(at, by_time[at]) for at in sorted(by_time)]

    def ended_by_path(
        self, window: EndedWindow, paths: Sequence[str], seconds: int
    ) -> tuple[Looked, Sequence[PathBucket]]:
        looked, ended = self._roots(replace(window, path=None))
        groups: defaultdict[tuple[str, float], list[str]] = defaultdict(list)
        for one in ended:
            if one.created.path in paths:
                at = math.floor((one.ended_at or 0.0) / seconds) * float(seconds)
                groups[one.created.path, at].append(one.status)
        return looked, [
            PathBucket(path, at, len(statuses), statuses.count("failed"))
            for (path, at), statuses in sorted(groups.items())
        ]

    def failure_groups(self, window: EndedWindow, limit: int) -> tuple[Looked, Sequence[FailureGroup]]:
        looked, ended = self._roots(window)
        groups: defaultdict[tuple[str, str], list[ExecutionEntry]] = defaultdict(list)
        for one in ended:
            if one.status == "failed":
                groups[one.created.path, failure_code(one)].append(one)
        found = [_group(path, code, members) for (path, code), members in sorted(groups.items())]
        return looked, sorted(found, key=lambda group: -group.count)[:limit]

    def asking(self, after: int, limit: int) -> Sequence[int]:
        with self._lock:
            live = [one.execution_id for one in self._tables.executions.values() if one.ended_at is None]
            found = [one for one in live if one > after and self._callbacks(one)]
        return sorted(found)[:limit]

    def callbacks_of_many(self, execution_ids: Sequence[int], limit: int) -> Mapping[int, Mapping[str, Any]]:
        with self._lock:
            found = {one: self._callbacks(one) for one in execution_ids if one in self._tables.work}
        return {one: dict(sorted(slots.items())[:limit]) for one, slots in found.items() if slots}

    def _callbacks(self, execution_id: int) -> dict[str, Any]:
        slots = self._tables.work[execution_id].slots
        return {place: codec.decode(value) for (scope, place), value in slots.items() if scope == SCOPE}

    def _roots(self, window: EndedWindow) -> tuple[Looked, list[ExecutionEntry]]:
        """Return what was looked at, and those of it that count, the latest end first."""
        with self._lock:
            roots = [
                one for one in self._tables.executions.values() if one.created.parent_execution_id is None
            ]
        inside = [one for one in roots if window.since <= (one.ended_at or -1.0) < window.until]
        found = sorted(inside, key=lambda one: (-(one.ended_at or 0.0), -one.execution_id))[: window.most]
        looked = Looked(len(found), found[-1].ended_at if found else None)
        return looked, [one for one in found if window.path in (None, one.created.path)]


def _bucket(at: float, ended: Sequence[ExecutionEntry]) -> Bucket:
    statuses = [one.status for one in ended]
    durations = sorted(max(0.0, (one.ended_at or 0.0) - one.started_at) for one in ended)
    p50, p95 = (durations[math.ceil(share * len(durations)) - 1] for share in (0.5, 0.95))
    return Bucket(
        at, statuses.count("completed"), statuses.count("failed"), statuses.count("cancelled"), p50, p95
    )


def _group(path: str, code: str, failed: Sequence[ExecutionEntry]) -> FailureGroup:
    """``failed``: the latest first."""
    first, last = failed[-1].ended_at or 0.0, failed[0].ended_at or 0.0
    return FailureGroup(path, code, len(failed), first, last, failed[0].execution_id)
