"""Progress of an execution's step runs.

History is folded row by row for status and live views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from noetl.domain.event_names import TERMINAL_EVENTS
from noetl.domain.unreadable import Unreadable, attempt
from noetl.ports.executions.execution_store import ExecutionStore, LoopProgress, StoredEvent
from noetl.services.history.read_history import HistoryEvent, read_facts

PAGE = 500

RunStatus = Literal[
    "running", "waiting", "retrying", "done", "failed", "skipped", "cancelled", "compensating", "compensated"
]
Fact = Mapping[str, Any]
OVER: frozenset[str] = frozenset({"done", "failed", "skipped", "cancelled", "compensated"})


class LoopCount(msgspec.Struct):
    """The counts of a loop's items.

    ``kept``: items whose outcome comes from an earlier run. They count as done until the loop is over.
    """

    total: int
    mode: str
    round: int = 0
    issued: int = 0
    done: int = 0
    failed: int = 0
    kept: int = 0
    over: bool = False


class StepRun(msgspec.Struct):
    """One firing of a step.

    Times are epoch seconds by the store's clock; ``ended`` is None while it runs.

    ``waiting``: not admitted yet, or for a callback or a time · ``retrying``: until a delayed retry · ``child``: what it waits for ·
    ``compensating``/``compensated``: it was done, and is being undone because the execution fails.
    """

    run: int
    step: str
    status: RunStatus
    started: float
    ended: float | None = None
    attempts: int = 1
    """Calls made: tries, pages and tasks alike, without those that the engine does itself."""
    loop: LoopCount | None = None
    child: int | None = None
    error: dict[str, Any] | None = None
    awaits: int = 0
    """Callbacks that it waits for (all items of its loop, where these were read)."""
    until: float | None = None
    """When it continues, while it waits for a time."""
    resting: bool = False
    """The turn that is issued next waits: for a callback or for a time."""
    replaced: bool = False
    """A redrive runs the step, or the failed items of its loop, again."""
    cached_from: str = ""
    """The execution whose stored result its last task took, instead of being run."""
    begun: int | None = None
    """The sub-execution that it began last, which may have ended; a loop begins one for each item, and none is this one."""

    def await_child(self, child: int | None) -> None:
        """Wait for a sub-execution, or no more for one."""
        self.child = child
        if child is not None and self.loop is None:
            self.begun = child

    def end(self, status: RunStatus, at: float) -> None:
        self.status, self.ended, self.child = status, at, None
        self.awaits, self.until, self.resting = 0, None, False


class Progress(msgspec.Struct):
    """Step runs by number, in the order they began.

    ``terminal``: the name of the event that ended the execution.
    """

    runs: dict[int, StepRun] = msgspec.field(default_factory=dict)
    seq: int = 0
    terminal: str = ""
    completed_steps: tuple[str, ...] = ()
    error: dict[str, Any] | None = None
    error_step: str = ""
    reason: str = ""
    taken: dict[int, int] = msgspec.field(default_factory=dict)
    """How many tokens came over each way, by its number."""
    unreadable: list[Unreadable] = msgspec.field(default_factory=list)
    """Rows that do not count for progress."""

    def add(self, row: StoredEvent) -> None:
        """Fold the next main-lane row."""
        self.seq = max(self.seq, row.seq)
        found = attempt(lambda: self._fold(row), f"event {row.event_id} of history")
        if isinstance(found, Unreadable):
            self.unreadable.append(found)

    def _fold(self, row: StoredEvent) -> None:
        self.add_facts(read_facts(row), row.at)

    def add_facts(self, facts: Iterable[Fact], at: float) -> None:
        """Fold facts of one main-lane row, in order."""
        for fact in facts:
            if fold := _FOLDS.get(str(fact.get("name"))):
                fold(self, fact, at)

    def add_event(self, event: HistoryEvent) -> None:
        """Fold the next event of a history that is read as events instead of rows.

        The events have stored names (``services.history.read_history``).
        """
        fold = _FOLDS.get(event.event_type)
        run = event.meta.get("run")
        if event.meta.get("lane"):
            self._count_item(event)
        elif fold is not None and (isinstance(run, int) or event.event_type in _OF_ALL):
            place = {"step": event.entity_id, "run": run} if isinstance(run, int) else {}
            fact = {**place, **event.payload, "name": event.event_type, "meta": event.meta}
            fold(self, fact, datetime.fromisoformat(event.timestamp).timestamp())

    def _count_item(self, event: HistoryEvent) -> None:
        step_run = self.runs.get(int(event.meta["lane"]))
        if event.event_type == "loop.item" and step_run is not None and step_run.loop is not None:
            step_run.loop.done += event.status != "error"
            step_run.loop.failed += event.status == "error"

    def count(self, loops: Iterable[LoopProgress]) -> None:
        """Take over how far loops are; rows of loops say it, history only at the end."""
        for progress in loops:
            step_run = self.runs.get(progress.run)
            loop = step_run.loop if step_run else None
            if loop is None or loop.round != progress.round:
                continue
            loop.issued = loop.kept + progress.issued
            if not loop.over:
                loop.done, loop.failed = loop.kept + progress.done, progress.failed

    @property
    def looping(self) -> bool:
        """A loop is under way, so ``count`` has something to tell."""
        return any(r.loop is not None and r.status not in OVER for r in self.runs.values())


def read_progress(
    store: ExecutionStore, execution_id: int, progress: Progress | None = None, *, items: bool = False
) -> Progress:
    """Fold what history holds beyond ``progress`` (or all of it), and how far live loops are.

    ``items``: also callbacks of single items, which count for ``StepRun.awaits`` alone. There may be as many as items.
    """
    progress = progress or Progress()
    look = store.events if items else store.step_events
    had_loops = progress.looping
    while True:
        page = look(execution_id, after=progress.seq, limit=PAGE)
        for row in page:
            progress.add(row)
        if len(page) < PAGE:
            break
    if had_loops or any(run.loop for run in progress.runs.values()):
        progress.count(store.loop_progress(execution_id))
    return progress


# --- one fold per fact that people see ------------------------------------------------------------


def _begin(progress: Progress, fact: Fact, at: float, status: RunStatus) -> StepRun:
    run = int(fact["run"])
    found = progress.runs.get(run)
    if found is None:
        found = progress.runs[run] = StepRun(run, str(fact.get("step", "")), status, at)
    if found.status != "compensating":
        found.status = status
    return found


def _entered(progress: Progress, fact: Fact, at: float) -> None:
    _begin(progress, fact, at, "running")


def _parked(progress: Progress, fact: Fact, at: float) -> None:
    _begin(progress, fact, at, "waiting")


def _skipped(progress: Progress, fact: Fact, at: float) -> None:
    _begin(progress, fact, at, "skipped").end("skipped", at)


def _issued(progress: Progress, fact: Fact, at: float) -> None:
    if fact.get("stage") == "compensate":
        step_run = _begin(progress, fact, at, "compensating")
        step_run.ended = None
        step_run.await_child(fact.get("child"))
        return
    known = progress.runs.get(int(fact["run"]))
    status: RunStatus = "retrying" if fact.get("delay") else "running"
    if known is not None and known.resting:
        status, known.resting = "waiting", False
    elif known is not None:
        known.until = None
    step_run = _begin(progress, fact, at, status)
    step_run.await_child(fact.get("child"))


def _called(progress: Progress, fact: Fact, at: float) -> None:
    step_run = _begin(progress, fact, at, "running")
    if fact.get("stage") == "compensate":
        step_run.end("done" if fact["name"] == "call.error" else "compensated", at)
        step_run.error = fact.get("error")
        return
    step_run.child = step_run.until = None
    attempts = (fact.get("meta") or {}).get("attempts")
    source = (fact.get("meta") or {}).get("cached")
    step_run.cached_from = str(source.get("execution_id", "")) if isinstance(source, dict) else ""
    if fact.get("stage", "body") == "body" and isinstance(attempts, int):
        step_run.attempts = max(step_run.attempts, attempts)


def _suspended(progress: Progress, fact: Fact, at: float) -> None:
    step_run = _begin(progress, fact, at, "retrying")
    step_run.attempts += 1


def _child(progress: Progress, fact: Fact, at: float) -> None:
    _begin(progress, fact, at, "running").await_child(fact.get("child"))


def _rests(progress: Progress, fact: Fact, at: float) -> None:
    step_run = _begin(progress, fact, at, "waiting")
    # Of work elsewhere nobody knows when it is over, only when it is given up.
    step_run.until, step_run.resting = None if fact.get("remote") else fact.get("until"), True


def _awaited(progress: Progress, fact: Fact, at: float) -> None:
    step_run = progress.runs.get(int(fact["run"]))
    if step_run is None or fact.get("early"):
        return
    step_run.awaits += 1
    if fact.get("index", -1) < 0:
        _begin(progress, fact, at, "waiting").resting = True


def _answered(progress: Progress, fact: Fact, at: float) -> None:
    step_run = progress.runs.get(int(fact["run"]))
    if step_run is not None and not fact.get("early"):
        step_run.awaits = max(0, step_run.awaits - 1)


def _loop_started(progress: Progress, fact: Fact, at: float) -> None:
    step_run = _begin(progress, fact, at, "running")
    total = int(fact.get("total", 0))
    kept = int(fact.get("whole", 0)) - total if fact.get("again") else 0
    step_run.loop = LoopCount(
        total + kept, str(fact.get("mode", "")), int(fact.get("round", 0)), kept, kept, kept=kept
    )


def _loop_done(progress: Progress, fact: Fact, at: float) -> None:
    step_run = _begin(progress, fact, at, "running")
    if step_run.loop is not None:
        step_run.loop.done, step_run.loop.failed = int(fact.get("done", 0)), int(fact.get("failed", 0))
        step_run.loop.over = True


def _exited(progress: Progress, fact: Fact, at: float) -> None:
    step_run = progress.runs.get(int(fact["run"]))
    if step_run is not None and step_run.status not in OVER:
        step_run.end("done", at)


def _failed_step(progress: Progress, fact: Fact, at: float) -> None:
    step_run = _begin(progress, fact, at, "failed")
    step_run.end("failed", at)
    step_run.error = fact.get("error")


def _terminal(progress: Progress, fact: Fact, at: float) -> None:
    progress.terminal = str(fact["name"])
    progress.completed_steps = tuple(fact.get("steps") or ())
    progress.error, progress.error_step = fact.get("error"), str(fact.get("step", ""))
    progress.reason = str(fact.get("reason", ""))
    _dropped(progress, fact, at)


def _dropped(progress: Progress, fact: Fact, at: float) -> None:
    """What was under way is not any more."""
    for step_run in progress.runs.values():
        if step_run.status not in OVER:
            step_run.end("cancelled", at)


def _routed(progress: Progress, fact: Fact, at: float) -> None:
    for arrival in fact.get("targets") or ():
        way = int(arrival.get("arc", -1))
        if way >= 0:
            progress.taken[way] = progress.taken.get(way, 0) + 1


def _redriven(progress: Progress, fact: Fact, at: float) -> None:
    # The end of the round before is over; the runs keep their errors.
    progress.error, progress.error_step, progress.reason = None, "", ""
    began = {str(arrival["step"]): int(arrival["run"]) for arrival in fact.get("arrivals") or ()}
    for step_run in progress.runs.values():
        step_run.replaced = step_run.replaced or step_run.run < began.get(step_run.step, 0)


_FOLDS: dict[str, Callable[[Progress, Fact, float], None]] = {
    "next.evaluated": _routed,
    "step.enter": _entered,
    "step.parked": _parked,
    "step.skipped": _skipped,
    "command.issued": _issued,
    "call.done": _called,
    "call.error": _called,
    "retry.scheduled": _suspended,
    "child.started": _child,
    "wait.started": _rests,
    "callback.awaited": _awaited,
    "callback.received": _answered,
    "callback.expired": _answered,
    "loop.started": _loop_started,
    "loop.done": _loop_done,
    "step.exit": _exited,
    "step.failed": _failed_step,
    "compensation.started": _dropped,
    "ending.started": _dropped,
    "execution.redriven": _redriven,
    **dict.fromkeys(TERMINAL_EVENTS, _terminal),
}
_OF_ALL = TERMINAL_EVENTS | {"compensation.started", "ending.started", "execution.redriven"}
"""Facts about the execution, not about one run of it."""
