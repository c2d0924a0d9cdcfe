"""Phases of step runs: what each did or waited for, and since when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from noetl.domain.sizes.table import NUMBER
from noetl.domain.text.timestamps import Timestamp
from noetl.domain.unreadable import Unreadable, attempt
from noetl.ports.executions.execution_store import ExecutionStore, StoredEvent
from noetl.services.history.progress import OVER, PAGE, Fact, Progress, StepRun
from noetl.services.history.read_history import read_facts

PhaseKind = Literal[
    "admission",
    "callback",
    "child",
    "compensating",
    "external",
    "join",
    "limit",
    "lock",
    "queued",
    "retrying",
    "running",
    "timer",
    "waiting",
]

_OUTCOMES = frozenset(
    {"call.done", "call.error", "retry.scheduled", "child.started", "wait.started", "callback.awaited"}
)
"""What a worker says when it has done its part. Where it says no duration, all of the time counts as running."""
_QUEUED = frozenset({"queued", "limit"})
MOST = 100
"""Phases of one run: what follows is one more, as it is now."""


class Phase(msgspec.Struct, frozen=True):
    """What a step run did, from ``at`` until its next phase, or its end.

    ``kind``: ``queued`` for a worker, or for a slot of a ``limit`` and a worker; ``running``; ``retrying`` after a delay; ``compensating``;
    or what it waits for: other tokens at a ``join``, ``admission``, a ``lock``, a ``timer``, a ``callback``, ``external`` work, a ``child``
    (``waiting``: the facts do not say what).
    """

    kind: PhaseKind
    at: Timestamp


class Phases:
    """A fold of history: progress, and the phases of each run, in order."""

    def __init__(self) -> None:
        self.progress = Progress()
        self._of: dict[int, list[Phase]] = {}
        self._waits: dict[int, PhaseKind] = {}
        """What a run waits for when it waits, by its latest fact that says so."""
        self._arrived: dict[int, float] = {}
        """When the tokens came that have not entered their step."""

    def add(self, row: StoredEvent) -> None:
        """Fold the next main-lane row."""
        self.progress.seq = max(self.progress.seq, row.seq)
        found = attempt(lambda: self.add_facts(read_facts(row), row.at), f"event {row.event_id} of history")
        if isinstance(found, Unreadable):
            self.progress.unreadable.append(found)

    def add_facts(self, facts: Iterable[Fact], at: float) -> None:
        """Fold facts of one main-lane row, in order."""
        for fact in facts:
            self.progress.add_facts([fact], at)
            self._note_arrivals(fact, at)
            run = fact.get("run")
            step_run = self.progress.runs.get(run) if isinstance(run, int) else None
            if step_run is not None:
                self._note(step_run, fact, at)

    def of(self, step_run: StepRun, *, limited: bool = False) -> list[Phase]:
        """Return the phases of a run. ``limited``: it waits for a slot now.

        Whether a worker has taken what is under way now is not known here: it counts as running.
        """
        found = self._of.get(step_run.run, [])
        if not found or step_run.ended is not None or found[-1].kind not in _QUEUED or limited:
            return list(found)
        now = list(found[:-1])
        _append(now, Phase("running", found[-1].at))
        return now

    def _note(self, step_run: StepRun, fact: Fact, at: float) -> None:
        phases = self._of.setdefault(step_run.run, [])
        if (cause := _cause(fact)) is not None:
            self._waits[step_run.run] = cause
        if not phases:
            self._note_join(step_run.run, fact, phases, at)
        if fact["name"] in _OUTCOMES and phases:
            _add_work(phases, fact, at)
        if (kind := _kind(step_run, fact)) is not None:
            shown = self._waits.get(step_run.run, kind) if kind == "waiting" else kind
            _append(phases, Phase(shown, Timestamp(at)))

    def _note_arrivals(self, fact: Fact, at: float) -> None:
        arrival = fact.get("arrival")
        for one in (
            *(fact.get("targets") or ()),
            *(fact.get("arrivals") or ()),
            *([arrival] if arrival else ()),
        ):
            self._arrived[int(one["run"])] = at
        for run in fact.get("runs") or ():
            self._arrived.pop(run, None)

    def _note_join(self, run: int, fact: Fact, phases: list[Phase], at: float) -> None:
        """Note since when the first of the tokens that a run takes has waited for the others."""
        tokens = (run, *(fact.get("merged") or ()))
        since = min((self._arrived.pop(one, at) for one in tokens), default=at)
        if since < at:
            phases.append(Phase("join", Timestamp(since)))


def _cause(fact: Fact) -> PhaseKind | None:
    """Return what a run waits for from now on; None when the fact does not say."""
    name = fact["name"]
    if name == "step.parked":
        return "lock" if fact.get("lock") else "admission"
    if name == "wait.started":
        return "external" if fact.get("remote") else "timer"
    return "callback" if name == "callback.awaited" and fact.get("index", -1) < 0 else None


def _kind(step_run: StepRun, fact: Fact) -> PhaseKind | None:
    """Return what a run does after a fact about it; None when it is over."""
    status = step_run.status
    if status in OVER:
        return None
    if status == "waiting" or status == "retrying" or status == "compensating":
        return status
    if step_run.child is not None:
        return "child"
    if fact["name"] != "command.issued":
        return "running"
    return "limit" if fact.get("limits") else "queued"


def _add_work(phases: list[Phase], fact: Fact, at: float) -> None:
    """Divide the time before an outcome.

    The worker says how long the call took; before that no worker had taken it.
    """
    took = (fact.get("meta") or {}).get("duration_ms")
    last = phases[-1]
    if last.kind not in _QUEUED and last.kind != "retrying":
        return
    began: float = last.at
    if isinstance(took, int | float) and not isinstance(took, bool) and 0 <= took <= NUMBER.value:
        began = max(began, at - took / 1000)
    _append(phases, Phase("running", Timestamp(min(at, began))))


def _append(phases: list[Phase], phase: Phase) -> None:
    while phases and phases[-1].at >= phase.at:
        phases.pop()
    if (phases and phases[-1].kind == phase.kind) or len(phases) > MOST:
        return
    phases.append(phase)


def read_phases(store: ExecutionStore, execution_id: int) -> Phases:
    """Fold the history of an execution's steps, and how far live loops are."""
    found = Phases()
    progress = found.progress
    while True:
        page = store.step_events(execution_id, after=progress.seq, limit=PAGE)
        for row in page:
            found.add(row)
        if len(page) < PAGE:
            break
    if any(run.loop for run in progress.runs.values()):
        progress.count(store.loop_progress(execution_id))
    return found
