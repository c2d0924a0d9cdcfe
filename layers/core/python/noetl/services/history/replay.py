"""Replay: an execution's facts, folded from the start and compared with the stored state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from noetl.domain import ids
from noetl.domain.errors import ConflictError
from noetl.domain.facts.facts import decode_facts
from noetl.domain.state import AWAKE, ExecutionState
from noetl.domain.unreadable import demand
from noetl.engine.folds.apply import rebuild
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from noetl.services.history.differences import differences
from noetl.services.history.execution_state import demand_state
from noetl.services.history.recover_state import main_lane
from noetl.services.queries.read_execution import find

MOST_DIFFERENCES = 50
_TRIES = 5


class Difference(msgspec.Struct, frozen=True):
    """A difference between the stored and the rebuilt execution.

    ``path``: where in state or slots. ``stored`` and ``rebuilt``: the two values (``<missing>`` when absent), shortened.
    """

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
    """Rebuild an execution from its facts, and compare it with the store.

    It compares state, slots and loop counts.

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
        "state": _plain(demand_state(info)) if info.version else {},
        "slots": _named(store.slots(info.execution_id)),
    }
    rebuilt = {"status": state.status, "state": _plain(state), "slots": _named(slots)}
    items, of_items = _items(store, info.execution_id)
    found = islice(differences("", stored, rebuilt), MOST_DIFFERENCES - len(of_items))
    of_state = [Difference(path, _short(left), _short(right)) for path, left, right in found]
    return ReplayReport(str(info.execution_id), len(rows), items, of_items + of_state)


def _rows(store: ExecutionStore, execution_id: int) -> Iterator[tuple[int, list[Any]]]:
    for row in main_lane(store, execution_id):
        what = f"event {row.event_id} of execution {execution_id}"
        yield row.seq, demand(partial(decode_facts, row.facts), what)


def _items(store: ExecutionStore, execution_id: int) -> tuple[int, list[Difference]]:
    """Compare the counts in loop rows with the item rows.

    Returns how many rows and differences.
    """
    done: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    rows = 0
    for row in store.every_item(execution_id):
        rows += 1
        if ids.ends_item(row.event_id):
            loop = row.event_id.rsplit(":", 1)[0]
            (failed if row.type == "call.error" else done)[loop] += 1
    found = []
    for progress in store.loop_progress(execution_id):
        loop = f"item:{progress.run}:{progress.round}"
        for name, stored, counted in (
            ("done", progress.done, done[loop]),
            ("failed", progress.failed, failed[loop]),
        ):
            if stored != counted:
                path = f"loops.{progress.step}#{progress.run}.{name}"
                found.append(Difference(path, str(stored), str(counted)))
    return rows, found[:MOST_DIFFERENCES]


def _named(slots: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    return {f"{scope}.{name}": msgspec.to_builtins(value) for (scope, name), value in slots.items()}


def _plain(state: ExecutionState) -> Any:
    """Return a state as it is encoded now.

    Versions before this one wrote ``wakes`` of every token.
    """
    for token in (*state.tokens.values(), *state.left):
        if token.wakes == AWAKE:
            token.wakes = AWAKE
    return msgspec.to_builtins(state)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"
