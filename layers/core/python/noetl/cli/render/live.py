"""The live view of a terminal.

It shows step runs with their state, loops with a bar and a rate, elapsed time, and task output above.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from noetl.cli.render.event_stream import Feed, TaskLog, Throttle, loop_text
from noetl.cli.render.output import duration, one_line
from noetl.services.history.progress import OVER, Progress, StepRun

_MARKS = {
    "running": ("●", "cyan"),
    "waiting": ("‖", "yellow"),
    "retrying": ("↻", "yellow"),
    "done": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("−", "dim"),
    "cancelled": ("−", "dim"),
    "compensating": ("↶", "yellow"),
    "compensated": ("↶", "dim"),
}
_MOST_EXECUTIONS = 5


class LiveView:
    """Redrawn at most ten times a second, from the thread that waits for the executions."""

    def __init__(self, feed: Feed, ids: Sequence[int], log: TaskLog) -> None:
        self._feed = feed
        self._progress = {execution_id: Progress() for execution_id in ids}
        self._log = log
        self._console = Console()
        self._started = time.monotonic()
        self._due = Throttle(0.1)
        self._rates: dict[tuple[int, int], tuple[float, int]] = {}
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._live.start()

    def tick(self) -> None:
        if self._due():
            self._show()

    def finish(self) -> None:
        self._show()
        self._live.stop()

    def _show(self) -> None:
        for line in self._log.take():
            self._console.print(Text(f"  | {line}", style="dim"))
        for execution_id in list(self._progress)[:_MOST_EXECUTIONS]:
            self._progress[execution_id] = self._feed.progress(execution_id)
        self._live.update(self._draw(), refresh=True)

    def _draw(self) -> RenderableType:
        shown = list(self._progress.items())[:_MOST_EXECUTIONS]
        room = max(4, (self._console.height - 4) // max(len(shown), 1) - 1)
        parts: list[RenderableType] = []
        for execution_id, progress in shown:
            if len(self._progress) > 1:
                parts.append(Text(f"execution {execution_id}", style="bold"))
            parts.append(self._steps(execution_id, progress, room))
        if len(self._progress) > len(shown):
            parts.append(Text(f"… and {len(self._progress) - len(shown)} more executions", style="dim"))
        elapsed = (time.monotonic() - self._started) * 1000
        parts.append(Text(f"elapsed {duration(elapsed)}", style="dim"))
        return Group(*parts)

    def _steps(self, execution_id: int, progress: Progress, room: int) -> RenderableType:
        runs = visible(list(progress.runs.values()), room)
        grid = Table.grid(padding=(0, 1))
        hidden = len(progress.runs) - len(runs)
        if hidden:
            grid.add_row("", Text(f"… {hidden} earlier", style="dim"))
        now = time.time()
        for run in runs:
            grid.add_row(*self._row(execution_id, run, now))
        return grid

    def _row(self, execution_id: int, run: StepRun, now: float) -> list[RenderableType]:
        mark, style = _MARKS[run.status]
        spent = duration(max(0.0, ((run.ended if run.ended is not None else now) - run.started) * 1000))
        return [
            Text(mark, style=style),
            Text(one_line(run.step, 40)),
            Text(run.status, style=style),
            Text(spent, style="dim"),
            self._bar(run),
            Text(self._details(execution_id, run), style="red" if run.status == "failed" else "dim"),
        ]

    def _bar(self, run: StepRun) -> RenderableType:
        if run.loop is None:
            return Text("")
        return ProgressBar(total=max(run.loop.total, 1), completed=run.loop.done + run.loop.failed, width=24)

    def _details(self, execution_id: int, run: StepRun) -> str:
        parts = []
        if run.loop:
            parts.append(loop_text(run))
            if run.status not in OVER:
                parts.append(self._rate(execution_id, run))
        if run.attempts > 1:
            parts.append(f"{run.attempts} calls")
        if run.cached_from:
            parts.append("cached")
        if run.child and run.status not in OVER:
            parts.append(f"waits for {run.child}")
        if run.error:
            parts.append(one_line(str(run.error.get("message", "")), 80))
        return "  ".join(part for part in parts if part)

    def _rate(self, execution_id: int, run: StepRun) -> str:
        """Items a second since this view first saw the loop."""
        done = run.loop.done + run.loop.failed if run.loop else 0
        since, first = self._rates.setdefault((execution_id, run.run), (time.monotonic(), done))
        seconds = time.monotonic() - since
        return f"{(done - first) / seconds:,.0f}/s" if seconds > 0.5 and done > first else ""


def visible(runs: Sequence[StepRun], room: int) -> list[StepRun]:
    """Choose at most ``room`` runs.

    First those that are not over, then those that ended last, in the order they began.
    """
    if len(runs) <= room:
        return list(runs)
    live = [run for run in runs if run.status not in OVER][-room:]
    over = [run for run in runs if run.status in OVER]
    rest = room - len(live)
    return sorted([*live, *(over[-rest:] if rest else [])], key=lambda run: run.run)
