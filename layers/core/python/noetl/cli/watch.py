"""Watching executions while they run: plain lines, or one JSON object per event. The live view is in ``live``."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from noetl.cli.text import duration, one_line, out, out_json, printable
from noetl.ports.execution_store import ExecutionStore
from noetl.services.progress import OVER, Progress, StepRun, read_progress
from noetl.services.read_history import HistoryReader

_LINE = 400
"""Most characters of a line that a task printed."""
_LOOP_SECONDS = 2.0
"""Plain lines tell about a running loop this often."""


class Watcher(Protocol):
    """Told now and then that something may have happened (``tick``), and once that nothing will any more (``finish``)."""

    def tick(self) -> None: ...
    def finish(self) -> None: ...


class Silent:
    """Watches nothing."""

    def tick(self) -> None:
        """Nothing to show."""

    def finish(self) -> None:
        """Nothing to show."""


class Throttle:
    """True at most every ``seconds``; the first time after one interval, so that short runs are looked at once, at the end."""

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

    def __init__(self, store: ExecutionStore, ids: Sequence[int]) -> None:
        self._readers = [HistoryReader(store, execution_id) for execution_id in ids]
        self._due = Throttle(0.2)

    def tick(self) -> None:
        if self._due():
            self._show(everything=False)

    def finish(self) -> None:
        self._show(everything=True)

    def _show(self, *, everything: bool) -> None:
        for reader in self._readers:
            for event in reader.read(everything=everything):
                out_json(event)


@dataclass(slots=True)
class _Told:
    """What the lines have said about a step run so far."""

    status: str = ""
    attempts: int = 1
    loop_at: float = field(default_factory=time.monotonic)
    loop_done: int = 0


class PlainLines:
    """A line whenever a step run changes, and now and then while a loop runs."""

    def __init__(self, store: ExecutionStore, ids: Sequence[int], log: TaskLog) -> None:
        self._store = store
        self._progress = {execution_id: Progress() for execution_id in ids}
        self._told: dict[tuple[int, int], _Told] = {}
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
        for execution_id, progress in self._progress.items():
            read_progress(self._store, execution_id, progress)
            prefix = f"{execution_id} " if len(self._progress) > 1 else ""
            for run in progress.runs.values():
                self._tell(prefix, execution_id, run)

    def _tell(self, prefix: str, execution_id: int, run: StepRun) -> None:
        told = self._told.setdefault((execution_id, run.run), _Told())
        now = time.monotonic()
        done = run.loop.done + run.loop.failed if run.loop else 0
        changed = run.status != told.status or run.attempts != told.attempts
        if changed or (done != told.loop_done and now - told.loop_at >= _LOOP_SECONDS):
            told.status, told.attempts, told.loop_at, told.loop_done = run.status, run.attempts, now, done
            out(prefix + step_line(run))


def step_line(run: StepRun) -> str:
    """``  fetch                done       35 ms  2 calls``"""
    parts = [f"  {one_line(run.step, 40):<24} {run.status:<9}"]
    if run.ended is not None:
        parts.append(f"{duration((run.ended - run.started) * 1000):>8}")
    if run.loop:
        parts.append(loop_text(run))
    if run.attempts > 1:
        parts.append(f"{run.attempts} calls")
    if run.child and run.status not in OVER:
        parts.append(f"waits for {run.child}")
    if run.error:
        parts.append(one_line(str(run.error.get("message", "")), 100))
    return "  ".join(parts).rstrip()


def loop_text(run: StepRun) -> str:
    """``830/1000 items, 2 failed``"""
    if run.loop is None:
        return ""
    text = f"{run.loop.done + run.loop.failed}/{run.loop.total} items"
    return f"{text}, {run.loop.failed} failed" if run.loop.failed else text
