"""Pause, resume, cancel and redrive of many executions on this machine at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from noetl.cli.client import runtime_access
from noetl.domain.events import Event
from noetl.ports.executions.answers import ExecutionFilter
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.services.executions.bulk_control import BulkDeps, BulkRequest, SteeredMany, Verb, steer_many
from noetl.services.executions.change_execution import ChangeRequest

PATIENCE = 30.0


def look_many(
    reading: runtime_access.Reading, verb: Verb, request: BulkRequest, change: ChangeRequest
) -> SteeredMany:
    """What is changed is done by whichever process runs executions here."""
    return steer_many(verb, request, change, _deps(reading, lambda events: None))


def do_many(
    runtime: runtime_access.Runtime, verb: Verb, request: BulkRequest, change: ChangeRequest
) -> SteeredMany:
    """They are applied when this returns, unless that takes long."""
    before: dict[int, int] = {}

    def publish(events: Sequence[Event]) -> None:
        before.update(_versions(runtime.store, [event.execution_id for event in events]))
        runtime.accept(list(events))

    done = steer_many(verb, request, change, _deps(runtime, publish))
    until = time.monotonic() + PATIENCE
    while before and time.monotonic() < until:
        now = _versions(runtime.store, list(before))
        before = {one: version for one, version in before.items() if now.get(one) == version}
        if before:
            time.sleep(0.05)
    return done


def _versions(store: ExecutionStore, ids: Sequence[int]) -> dict[int, int]:
    found = store.executions(limit=max(1, len(ids)), wanted=ExecutionFilter(ids=tuple(ids)))
    return {info.execution_id: info.version for info in found}


def _deps(source: runtime_access.Reading, publish: Callable[[Sequence[Event]], None]) -> BulkDeps:
    return BulkDeps(source.store, source.catalog, source.programs, publish, time.time)
