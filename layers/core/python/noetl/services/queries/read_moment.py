"""View of an execution at any fact of its history, and of what changed since another one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.state import Slots
from noetl.domain.text.timestamps import Timestamp
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from noetl.services.history.differences import MISSING, differences
from noetl.services.history.moments import FactSeen, Folded, Histories, Moment
from noetl.services.queries.read_execution import StepView, find, step_view

VALUE_BYTES = 16 * 1024
"""Bytes of a value that is shown whole; of a larger one the size is shown."""
VALUES_BYTES = 1024 * 1024
"""Bytes of all values of one answer."""
CHANGE_BYTES = 2 * 1024
MOST_CHANGES = 200
MOST_STEPS = 2000
_NOT_SHOWN = frozenset({"undo", "callback"})
"""Scopes that only the engine reads."""


class ValueView(msgspec.Struct, frozen=True):
    """A value of a scope. ``omitted``: it is too large to be shown here; a template reads it."""

    scope: str
    name: str
    value: Any
    bytes: int
    omitted: bool = False


class ChangeView(msgspec.Struct, frozen=True):
    """One place that differs.

    ``before`` and ``after``: the values; null where there is none, or where it is too large (``omitted``).
    """

    path: str
    kind: str
    before: Any
    after: Any
    omitted: bool = False


class MomentView(msgspec.Struct, frozen=True):
    """An execution at a moment.

    ``state``: as the engine folds it. ``steps``: the latest 2,000 step runs so far, in order.
    """

    at: int
    since: int
    total: int
    time: Timestamp
    fact: FactSeen | None
    status: str
    state: dict[str, Any]
    steps: list[StepView]
    values: list[ValueView]
    values_left_out: int
    changes: list[ChangeView]
    changes_left_out: int


def read_moment(
    store: ExecutionStore, histories: Histories, execution_id: int, at: Moment, since: Moment | None
) -> tuple[MomentView, Folded, ExecutionInfo]:
    """Fold an execution up to ``at`` and compare with ``since`` (None: the fact before).

    Raises NotFoundError, UnreadableRowError, InvalidInputError(code="no_such_moment").
    """
    info = find(store, execution_id)
    reading = histories.fold(store, info, at)
    now = reading.folded
    before = histories.fold(store, info, since or Moment(fact=max(0, now.fact - 1))).folded
    if now.fact == reading.total:
        now.progress.count(store.loop_progress(execution_id))
    values, left_out = _values(now.slots)
    found = list(islice(_changes(before, now), MOST_CHANGES + 1_000))
    runs = list(now.progress.runs.values())[-MOST_STEPS:]
    time = Timestamp(now.last.at if now.last else info.started_at)
    view = MomentView(
        now.fact,
        before.fact,
        reading.total,
        time,
        now.last,
        now.state.status,
        msgspec.to_builtins(now.state, str_keys=True),
        [_step(now, run, time, whole=now.fact == reading.total) for run in runs],
        values,
        left_out,
        found[:MOST_CHANGES],
        max(0, len(found) - MOST_CHANGES),
    )
    return view, now, info


def _step(now: Folded, run: Any, time: float, *, whole: bool) -> StepView:
    """Return a step run as it was at the moment.

    The progress of a loop within its run is in rows of items, which are not folded here.
    """
    shown = step_view(run, time)
    under_way = run.loop is not None and not run.loop.over and not whole
    return msgspec.structs.replace(shown, loop=None) if under_way else shown


def _values(slots: Slots) -> tuple[list[ValueView], int]:
    shown: list[ValueView] = []
    room = VALUES_BYTES
    wanted = sorted((key for key in slots if key[0] not in _NOT_SHOWN), key=_order)
    for number, (scope, name) in enumerate(wanted):
        value = msgspec.to_builtins(slots[scope, name])
        size = len(codec.encode(value))
        whole = size <= min(VALUE_BYTES, room)
        shown.append(ValueView(scope, name, value if whole else None, size, not whole))
        room -= size if whole else 100
        if room <= 0:
            return shown, len(wanted) - number - 1
    return shown, 0


_SCOPES = ("ctx", "vars", "step", "run", "args", "workload")


def _order(key: tuple[str, str]) -> tuple[int, int, str]:
    scope, name = key
    return (
        _SCOPES.index(scope) if scope in _SCOPES else len(_SCOPES),
        int(name) if name.isdigit() else 0,
        name,
    )


def _changes(before: Folded, now: Folded) -> Iterator[ChangeView]:
    yield from changes({"status": before.state.status}, {"status": now.state.status})
    runs = {str(run.run): run for run in before.progress.runs.values()}
    for number, run in now.progress.runs.items():
        old = runs.get(str(number))
        if old is None or old.status != run.status:
            yield ChangeView(
                f"{run.step} #{number}",
                "changed" if old else "added",
                old.status if old else None,
                run.status,
            )
    for path, left, right in differences("", _tree(before.slots), _tree(now.slots)):
        yield change(path, left, right)


def _tree(slots: Slots) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for (scope, name), value in slots.items():
        if scope not in _NOT_SHOWN:
            tree[f"{scope}.{name}"] = value
    return tree


def changes(left: Any, right: Any) -> Iterator[ChangeView]:
    """Yield the differences between two values, as they are shown."""
    for path, one, other in differences("", left, right):
        yield change(path, one, other)


def change(path: str, left: Any, right: Any) -> ChangeView:
    """Describe one difference; large values are left out."""
    kind = "added" if left is MISSING else "removed" if right is MISSING else "changed"
    shown = [_short(one) for one in (left, right)]
    return ChangeView(path, kind, shown[0][0], shown[1][0], shown[0][1] or shown[1][1])


def _short(value: Any) -> tuple[Any, bool]:
    if value is MISSING:
        return None, False
    plain = msgspec.to_builtins(value)
    return (plain, False) if len(codec.encode(plain)) <= CHANGE_BYTES else (None, True)
