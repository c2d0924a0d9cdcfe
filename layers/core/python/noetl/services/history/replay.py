"""Replay: folds an execution's facts from the start and compares the result with the stored state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from noetl.domain.errors import ConflictError
from noetl.domain.facts.facts import decode_facts
from noetl.domain.unreadable import demand
from noetl.engine.folds.apply import rebuild
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from noetl.services.history.execution_state import demand_state
from noetl.services.history.recover_state import main_lane
from noetl.services.queries.read_execution import find

MOST_DIFFERENCES = 50
_TRIES = 5


class Difference(msgspec.Struct, frozen=True):
    """``path``: where in state or slots; ``stored`` and ``rebuilt``: the two values (``<missing>`` when absent), shortened."""

    path: str
    stored: str
    rebuilt: str


class ReplayReport(msgspec.Struct, frozen=True):
    execution_id: str
    rows: int
    items: int
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        return not self.differences


def replay(store: ExecutionStore, execution_id: int) -> ReplayReport:
    """Rebuild one execution from its facts and compare state, slots, and the counts of its loops with what is stored.

    Raises NotFoundError, UnreadableRowError, and ConflictError when the execution moves too fast to be read at one version.
    """
    info = find(store, execution_id)
    for _ in range(_TRIES):
        report = _compare(store, info)
        again = find(store, execution_id)
        if again.version == info.version:
            return report
        info = again
    raise ConflictError(
        f"execution {execution_id} changed each time it was read",
        code="execution_is_moving",
        hint="replay it when it has ended, or while nothing runs it",
    )


def _compare(store: ExecutionStore, info: ExecutionInfo) -> ReplayReport:
    rows = list(_rows(store, info.execution_id))
    state, slots = rebuild(rows)
    stored = {
        "status": info.status,
        "state": msgspec.to_builtins(demand_state(info)) if info.version else {},
        "slots": _named(store.slots(info.execution_id)),
    }
    rebuilt = {"status": state.status, "state": msgspec.to_builtins(state), "slots": _named(slots)}
    items, differences = _items(store, info.execution_id)
    for found in _differences("", stored, rebuilt):
        differences.append(found)
        if len(differences) == MOST_DIFFERENCES:
            break
    return ReplayReport(str(info.execution_id), len(rows), items, differences)


def _rows(store: ExecutionStore, execution_id: int) -> Iterator[tuple[int, list[Any]]]:
    for row in main_lane(store, execution_id):
        what = f"event {row.event_id} of execution {execution_id}"
        yield row.seq, demand(partial(decode_facts, row.facts), what)


def _items(store: ExecutionStore, execution_id: int) -> tuple[int, list[Difference]]:
    """Items are counted by their loop's row while their rows are the truth: the two must agree."""
    done: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    rows = 0
    for row in store.every_item(execution_id):
        rows += 1
        if row.event_id.count(":") == 3:
            loop = row.event_id.rsplit(":", 1)[0]
            (failed if row.type == "call.error" else done)[loop] += 1
    differences = []
    for progress in store.loop_progress(execution_id):
        loop = f"item:{progress.run}:{progress.round}"
        for name, stored, counted in (
            ("done", progress.done, done[loop]),
            ("failed", progress.failed, failed[loop]),
        ):
            if stored != counted:
                path = f"loops.{progress.step}#{progress.run}.{name}"
                differences.append(Difference(path, str(stored), str(counted)))
    return rows, differences


def _named(slots: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    return {f"{scope}.{name}": msgspec.to_builtins(value) for (scope, name), value in slots.items()}


_MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<missing>"})()


def _differences(path: str, stored: Any, rebuilt: Any) -> Iterator[Difference]:
    if isinstance(stored, dict) and isinstance(rebuilt, dict):
        for key in sorted({*stored, *rebuilt}, key=str):
            yield from _differences(
                f"{path}.{key}" if path else str(key), stored.get(key, _MISSING), rebuilt.get(key, _MISSING)
            )
    elif isinstance(stored, list) and isinstance(rebuilt, list) and len(stored) == len(rebuilt):
        for index, (left, right) in enumerate(zip(stored, rebuilt, strict=True)):
            yield from _differences(f"{path}[{index}]", left, right)
    elif type(stored) is not type(rebuilt) or stored != rebuilt:
        yield Difference(path, _short(stored), _short(rebuilt))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"
