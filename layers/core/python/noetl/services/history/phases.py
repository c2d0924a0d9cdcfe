"""Phases of step runs: what each did or waited for, and since when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from noetl.domain.text.timestamps import Timestamp
from noetl.domain.unreadable import Unreadable, attempt
from noetl.ports.executions.execution_store import ExecutionStore, StoredEvent
from noetl.services.history.progress import OVER, PAGE, Fact, Progress, StepRun
from noetl.services.history.read_history import read_facts

PhaseKind = Literal["queued", "running", "waiting", "retrying", "child", "compensating"]

_OUTCOMES = frozenset(
    {"call.done", "call.error", "retry.scheduled", "child.started", "wait.started", "callback.awaited"}
)
"""What a worker says when it has done its part. Where it says no duration, all of the time counts as running."""
MOST = 100
"""Phases of one run: what follows is one more, as it is now."""


class Phase(msgspec.Struct, frozen=True):
    """What a step run did, from ``at`` until its next phase, or its end.

    ``kind``: ``queued`` for a worker, ``running``, ``waiting`` (to be admitted, for a time or a callback), ``retrying`` after a delay,
    for a ``child``, ``compensating``.
    """

    kind: PhaseKind
    at: Timestamp


class Phases:
    """A fold of history: progress, and the phases of each run, in order."""

    def __init__(self) -> None:
        self.progress = Progress()
        self._of: dict[int, list[Phase]] = {}

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
            run = fact.get("run")
            step_run = self.progress.runs.get(run) if isinstance(run, int) else None
            if step_run is not None:
                self._note(step_run, fact, at)

    def of(self, step_run: StepRun) -> list[Phase]:
        """Return the phases of a run.

        Whether a worker has taken what is under way now is not known here: it counts as running.
        """
        found = self._of.get(step_run.run, [])
        if not found or step_run.ended is not None or found[-1].kind != "queued":
            return list(found)
        now = list(found[:-1])
        _append(now, Phase("running", found[-1].at))
        return now

    def _note(self, step_run: StepRun, fact: Fact, at: float) -> None:
        phases = self._of.setdefault(step_run.run, [])
        if fact["name"] in _OUTCOMES and phases:
            _add_work(phases, fact, at)
        if (kind := _kind(step_run, fact)) is not None:
            _append(phases, Phase(kind, Timestamp(at)))


def _kind(step_run: StepRun, fact: Fact) -> PhaseKind | None:
    """Return what a run does after a fact about it; None when it is over."""
    status = step_run.status
    if status in OVER:
        return None
    if status == "waiting" or status == "retrying" or status == "compensating":
        return status
    if step_run.child is not None:
        return "child"
    return "queued" if fact["name"] == "command.issued" else "running"


def _add_work(phases: list[Phase], fact: Fact, at: float) -> None:
    """Divide the time before an outcome.

    The worker says how long the call took; before that no worker had taken it.
    """
    took = (fact.get("meta") or {}).get("duration_ms")
    last = phases[-1]
    if last.kind not in ("queued", "retrying"):
        return
    known = isinstance(took, int | float) and not isinstance(took, bool)
    began = max(last.at, at - float(took or 0) / 1000) if known else last.at
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
