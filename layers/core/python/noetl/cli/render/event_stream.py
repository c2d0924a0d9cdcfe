"""Display of running executions as plain lines or JSON.

JSON is one object per event. The live view is in ``live``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from noetl.cli.render.output import clock, duration, one_line, out, out_json, printable
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.services.history.history_pages import HistoryReader
from noetl.services.history.progress import OVER, LoopCount, Progress, StepRun, read_progress
from noetl.services.history.read_history import HistoryEvent
from noetl.services.queries.read_execution import StepView

_LINE = 400
"""Most characters of a line that a task printed."""
_LOOP_SECONDS = 2.0
"""Plain lines report a running loop this often."""


class Watcher(Protocol):
    """A watcher of executions.

    ``tick`` is called when something may have happened, ``finish`` at the end.
    """

    def tick(self) -> None: ...
    def finish(self) -> None: ...


class Feed(Protocol):
    """Where watchers learn what happens."""

    def new_events(self, execution_id: int, *, everything: bool) -> Iterable[HistoryEvent]:
        """Events since the last call.

        ``everything``: also those that wait for earlier ones (nothing more will be asked).
        """

    def progress(self, execution_id: int) -> Progress:
        """How far its steps are by now."""


class StoreFeed:
    """The feed of a local store."""

    def __init__(self, store: ExecutionStore) -> None:
        self._store = store
        self._readers: dict[int, HistoryReader] = {}
        self._progress: dict[int, Progress] = {}

    def new_events(self, execution_id: int, *, everything: bool) -> Iterable[HistoryEvent]:
        """Read as it is consumed."""
        reader = self._readers.setdefault(execution_id, HistoryReader(self._store, execution_id))
        return reader.read(everything=everything)

    def progress(self, execution_id: int) -> Progress:
        """Folds what was added since the last call."""
        known = self._progress.setdefault(execution_id, Progress())
        return read_progress(self._store, execution_id, known, items=True)


class SilentWatcher:
    """Watches nothing."""

    def tick(self) -> None:
        """Nothing to show."""

    def finish(self) -> None:
        """Nothing to show."""


class Throttle:
    """A clock that is true at most every ``seconds``.

    The first time after one interval, so that short runs are looked at once, at the end.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = time.monotonic() + seconds

    def __call__(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True


class TaskLog:
    """Lines that tasks print, handed from worker threads to the thread that owns the terminal."""

    def __init__(self, most: int = 10_000) -> None:
        self._lines: deque[str] = deque(maxlen=most)

    def add(self, line: str) -> None:
        """Called by the runtime, from any thread."""
        self._lines.append(printable(line, _LINE))

    def take(self) -> list[str]:
        lines = []
        while self._lines:
            lines.append(self._lines.popleft())
        return lines


class JsonEvents:
    """Every event as a line of JSON."""

    def __init__(self, feed: Feed, ids: Sequence[int]) -> None:
        self._feed, self._ids = feed, tuple(ids)
        self._due = Throttle(0.2)

    def tick(self) -> None:
        if self._due():
            self._show(everything=False)

    def finish(self) -> None:
        self._show(everything=True)

    def _show(self, *, everything: bool) -> None:
        for execution_id in self._ids:
            for event in self._feed.new_events(execution_id, everything=everything):
                out_json(event)


class _RunLines(msgspec.Struct):
    """What the lines have said about a step run so far."""

    status: str = ""
    attempts: int = 1
    loop_at: float = msgspec.field(default_factory=time.monotonic)
    loop_done: int = 0


class PlainLines:
    """A line whenever a step run changes, and now and then while a loop runs."""

    def __init__(self, feed: Feed, ids: Sequence[int], log: TaskLog) -> None:
        self._feed, self._ids = feed, tuple(ids)
        self._printed: dict[tuple[int, int], _RunLines] = {}
        self._log = log
        self._due = Throttle(0.2)

    def tick(self) -> None:
        if self._due():
            self._show()

    def finish(self) -> None:
        self._show()

    def _show(self) -> None:
        for line in self._log.take():
            out(f"  | {line}")
        for execution_id in self._ids:
            prefix = f"{execution_id} " if len(self._ids) > 1 else ""
            for run in self._feed.progress(execution_id).runs.values():
                self._print(prefix, execution_id, run)

    def _print(self, prefix: str, execution_id: int, run: StepRun) -> None:
        shown = self._printed.setdefault((execution_id, run.run), _RunLines())
        now = time.monotonic()
        done = run.loop.done + run.loop.failed if run.loop else 0
        changed = run.status != shown.status or run.attempts != shown.attempts
        if changed or (done != shown.loop_done and now - shown.loop_at >= _LOOP_SECONDS):
            shown.status, shown.attempts, shown.loop_at, shown.loop_done = run.status, run.attempts, now, done
            out(prefix + step_line(run))


def run_of(view: StepView) -> StepRun:
    """A step run as it was shown, for ``step_line``."""
    loop = view.loop
    over = view.status in OVER
    return StepRun(
        view.run,
        view.step,
        view.status,  # type: ignore[arg-type]
        view.started_at,
        view.started_at + view.duration_ms / 1000 if over else None,
        view.attempts,
        LoopCount(loop.total, loop.mode, 0, loop.issued, loop.done, loop.failed) if loop else None,
        int(view.child_execution_id) if view.child_execution_id else None,
        view.error,
        until=view.until,
        cached_from=view.cached_from or "",
    )


def step_line(run: StepRun) -> str:
    """``  fetch                done       35 ms  2 calls``"""
    parts = [f"  {one_line(run.step, 40):<24} {run.status:<9}"]
    if run.ended is not None:
        parts.append(f"{duration((run.ended - run.started) * 1000):>8}")
    if run.loop:
        parts.append(loop_text(run))
    if run.attempts > 1:
        parts.append(f"{run.attempts} calls")
    if run.cached_from:
        parts.append(f"cached, from {run.cached_from}")
    if run.child and run.status not in OVER:
        parts.append(f"waits for {run.child}")
    if run.until is not None and run.status == "waiting":
        parts.append(f"until {clock(run.until)}")
    if run.error:
        parts.append(one_line(str(run.error.get("message", "")), 100))
    return "  ".join(parts).rstrip()


def loop_text(run: StepRun) -> str:
    """``830/1000 items, 2 failed``"""
    if run.loop is None:
        return ""
    text = f"{run.loop.done + run.loop.failed}/{run.loop.total} items"
    return f"{text}, {run.loop.failed} failed" if run.loop.failed else text
