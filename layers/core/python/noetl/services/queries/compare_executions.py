"""Comparison of two executions: playbooks, inputs, step runs, context and results.

It also finds the first step run that differs.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from itertools import islice
from typing import Any, Literal

import msgspec

from noetl.domain import codec
from noetl.domain.long_work import begin_long_work
from noetl.domain.results.references import is_ref
from noetl.domain.text.timestamps import Timestamp
from noetl.domain.unreadable import demand
from noetl.ports.catalog import Catalog, CatalogEntry
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from noetl.services.history.differences import MISSING
from noetl.services.history.moments import LONG
from noetl.services.history.progress import Progress, StepRun
from noetl.services.history.read_history import read_facts
from noetl.services.history.recover_state import main_lane
from noetl.services.queries.differing_by_nature import ComparedChange, Essence, compared_changes
from noetl.services.queries.read_execution import error_of, find, step_view, view_status
from noetl.services.results.ending_value import ending_value

MOST_LINES = 2_000
MOST_CHANGES = 100
MOST_CHANGES_OF_A_RUN = 10
MOST_STEPS = 2_000
KEPT_BYTES = 4 * 1024
"""Bytes of a value that are compared place by place; larger ones are compared as a whole."""

Part = Literal["presence", "status", "arguments", "result", "route"]


class SideView(msgspec.Struct, frozen=True):
    """One of the two executions.

    ``version``: null when the catalog has no version with its program.
    """

    execution_id: str
    path: str
    version: int | None
    status: str
    started_at: Timestamp
    duration_ms: int
    error: str | None


class RunSide(msgspec.Struct, frozen=True):
    """A step run of one side. ``next``: the steps that its tokens went to."""

    run: int
    status: str
    started_at: Timestamp
    duration_ms: int
    attempts: int
    error: str | None
    next: list[str]


class AlignedRun(msgspec.Struct, frozen=True):
    """The n-th run of a step in both executions.

    ``differs``: the aspects that differ. ``changes``: the first places that differ; those that differ by nature come last.
    """

    step: str
    occurrence: int
    a: RunSide | None
    b: RunSide | None
    differs: list[Part]
    changes: list[ComparedChange]


class Comparison(msgspec.Struct, frozen=True):
    """The comparison of two executions.

    ``diff``: of the playbooks' texts, in unified form. ``divergence``: index in ``steps`` of the first run that differs, in the order of
    execution ``a``; null when all runs are alike.
    """

    a: SideView
    b: SideView
    same_program: bool
    diff: list[str]
    input: list[ComparedChange]
    context: list[ComparedChange]
    result: list[ComparedChange]
    steps: list[AlignedRun]
    steps_left_out: int
    divergence: int | None


class _Value(msgspec.Struct):
    """A value of a run: the digest of its essence, and the value itself while it is small."""

    digest: bytes = b""
    value: Any = MISSING

    @staticmethod
    def of(value: Any, own_id: str) -> _Value:
        plain = _comparable(value)
        text = codec.encode_sorted(Essence(own_id).of(plain))
        digest = text if len(text) <= KEPT_BYTES else hashlib.sha256(text).digest()
        return _Value(digest, plain if len(codec.encode(plain)) <= KEPT_BYTES else MISSING)


class _Run(msgspec.Struct):
    arguments: _Value = msgspec.field(default_factory=_Value)
    result: _Value = msgspec.field(default_factory=_Value)
    next: list[str] = []


class _Side(msgspec.Struct):
    info: ExecutionInfo
    progress: Progress = msgspec.field(default_factory=Progress)
    runs: dict[int, _Run] = {}

    @property
    def own_id(self) -> str:
        return str(self.info.execution_id)


def compare_executions(store: ExecutionStore, catalog: Catalog, a: int, b: int, *, now: float) -> Comparison:
    """Compare two executions by their histories. Raises NotFoundError and UnreadableRowError."""
    one, other = _read(store, find(store, a)), _read(store, find(store, b))
    entries = [catalog.by_program(side.info.program) for side in (one, other)]
    slots = [store.slots(side.info.execution_id) for side in (one, other)]
    ids = (one.own_id, other.own_id)
    aligned = _aligned(one, other, now)
    first = next((index for index, run in enumerate(aligned) if run.differs), None)
    return Comparison(
        _side(one.info, entries[0], now),
        _side(other.info, entries[1], now),
        one.info.program == other.info.program,
        _text_diff(entries[0], entries[1]),
        _scoped(slots, "workload", ids),
        _scoped(slots, "ctx", ids),
        _results(store, one.info, other.info),
        aligned[:MOST_STEPS],
        max(0, len(aligned) - MOST_STEPS),
        first,
    )


def _read(store: ExecutionStore, info: ExecutionInfo) -> _Side:
    side, count = _Side(info), 0
    for row in main_lane(store, info.execution_id):
        facts = demand(lambda row=row: read_facts(row), f"event {row.event_id}")  # type: ignore[misc]
        side.progress.add_facts(facts, row.at)
        for fact in facts:
            _note(side, fact)
        count += len(facts)
        if count > LONG:
            begin_long_work()
    side.progress.count(store.loop_progress(info.execution_id))
    return side


def _note(side: _Side, fact: Mapping[str, Any]) -> None:
    name, number = fact.get("name"), fact.get("run")
    if not isinstance(number, int):
        return
    run = side.runs.setdefault(number, _Run())
    if name == "step.enter":
        run.arguments = _Value.of(fact.get("args", {}), side.own_id)
    elif name in ("call.done", "call.error") and fact.get("stage", "body") == "body":
        run.result = _Value.of(fact.get("result", fact.get("error")), side.own_id)
    elif name == "loop.done":
        value = fact.get("value") if fact.get("has_value") else fact.get("results")
        run.result = _Value.of(value, side.own_id)
    elif name == "next.evaluated":
        run.next = [str(one.get("step", "")) for one in fact.get("targets") or ()]


def _comparable(value: Any) -> Any:
    """Return a value without the storage places of its large parts, which always differ."""
    if is_ref(value):
        return {key: value[key] for key in ("kind", "sha256", "size", "bytes", "count") if key in value}
    if isinstance(value, Mapping):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return value


# --- runs side by side ---------------------------------------------------------------------------


def _aligned(one: _Side, other: _Side, now: float) -> list[AlignedRun]:
    """Pair the n-th runs of each step, in the order of the first side.

    A run that only the other side has is placed where it ran there.
    """
    first_runs, second_runs = _by_occurrence(one.progress), _by_occurrence(other.progress)
    found = []
    waiting = iter([key for key in second_runs if key not in first_runs])
    rest = next(waiting, None)
    order = list(second_runs)
    place = {key: index for index, key in enumerate(order)}
    for key, run in first_runs.items():
        while rest is not None and key in second_runs and place[rest] < place[key]:
            found.append(_pair(rest, None, second_runs[rest], one, other, now))
            rest = next(waiting, None)
        found.append(_pair(key, run, second_runs.get(key), one, other, now))
    while rest is not None:
        found.append(_pair(rest, None, second_runs[rest], one, other, now))
        rest = next(waiting, None)
    return found


def _by_occurrence(progress: Progress) -> dict[tuple[str, int], StepRun]:
    counts: dict[str, int] = {}
    found = {}
    for run in progress.runs.values():
        counts[run.step] = counts.get(run.step, 0) + 1
        found[run.step, counts[run.step]] = run
    return found


def _pair(
    key: tuple[str, int], first: StepRun | None, second: StepRun | None, one: _Side, other: _Side, now: float
) -> AlignedRun:
    a = one.runs.get(first.run, _Run()) if first else _Run()
    b = other.runs.get(second.run, _Run()) if second else _Run()
    differs: list[Part] = []
    found: list[ComparedChange] = []
    if first is None or second is None:
        differs.append("presence")
    else:
        if first.status != second.status:
            differs.append("status")
        for part, left, right in (
            ("arguments", a.arguments, b.arguments),
            ("result", a.result, b.result),
        ):
            if left.digest != right.digest:
                differs.append(part)  # type: ignore[arg-type]
            elif left.value is MISSING or right.value is MISSING:
                continue
            found += compared_changes({part: left.value}, {part: right.value}, (one.own_id, other.own_id))
        if a.next != b.next:
            differs.append("route")
    return AlignedRun(
        *key,
        _run_side(first, a, now),
        _run_side(second, b, now),
        differs,
        sorted(found, key=lambda change: change.by_nature is not None)[:MOST_CHANGES_OF_A_RUN],
    )


def _run_side(run: StepRun | None, noted: _Run, now: float) -> RunSide | None:
    if run is None:
        return None
    shown = step_view(run, now)
    return RunSide(
        run.run,
        run.status,
        Timestamp(run.started),
        shown.duration_ms,
        run.attempts,
        _message(run.error),
        noted.next,
    )


# --- the whole executions ------------------------------------------------------------------------


def _side(info: ExecutionInfo, entry: CatalogEntry | None, now: float) -> SideView:
    end = info.ended_at if info.ended_at is not None else now
    return SideView(
        str(info.execution_id),
        info.path,
        entry.version if entry else None,
        view_status(info),
        Timestamp(info.started_at),
        max(0, round((end - info.started_at) * 1000)),
        _message(error_of(info)),
    )


def _message(error: Mapping[str, Any] | None) -> str | None:
    return str(error.get("message", "")) if error else None


def _text_diff(a: CatalogEntry | None, b: CatalogEntry | None) -> list[str]:
    if a is None or b is None or a.content == b.content:
        return []
    left, right = (f"{entry.path}@{entry.version}" for entry in (a, b))
    lines = difflib.unified_diff(a.content.splitlines(), b.content.splitlines(), left, right, lineterm="")
    return list(islice(lines, MOST_LINES))


def _scoped(
    slots: list[Mapping[tuple[str, str], Any]], scope: str, ids: tuple[str, str]
) -> list[ComparedChange]:
    a, b = ({name: _comparable(value) for (of, name), value in one.items() if of == scope} for one in slots)
    return list(islice(compared_changes(a, b, ids), MOST_CHANGES))


def _results(store: ExecutionStore, a: ExecutionInfo, b: ExecutionInfo) -> list[ComparedChange]:
    endings = store.endings([a.execution_id, b.execution_id])
    values = []
    for info in (a, b):
        ending = endings.get(info.execution_id)
        done = ending is not None and ending.info.status == "completed"
        values.append({"result": _comparable(ending_value(ending))} if done and ending else {})
    ids = (str(a.execution_id), str(b.execution_id))
    return list(islice(compared_changes(values[0], values[1], ids), MOST_CHANGES))
