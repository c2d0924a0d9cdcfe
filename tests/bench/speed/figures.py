"""A figure of the benchmarks: several runs of one measure, with what is needed to read it later (commit, machine, load)."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
QUIET_LOAD = 0.25
"""Load average per core up to which a machine counts as quiet."""
WORKLOADS = {
    "chain": "a chain of 100 steps, per step",
    "alone": "an execution of three steps, alone",
    "many": "executions of three steps, many at once",
    "parallel": "a parallel loop",
    "sequential": "a sequential loop of 1,000",
    "door": "three steps over HTTP: start, and wait for the end",
    "starts": "starts over HTTP, each of an execution of one step",
    "door-chain": "a chain of 100 steps over HTTP, per step",
    "door-parallel": "a parallel loop over HTTP",
    "door-sequential": "a sequential loop of 1,000 over HTTP",
}
LESS_IS_BETTER = ("ms", "us", "commits", "bytes", "ratio", "MB")


@dataclass(frozen=True, slots=True)
class Figure:
    """``way``: which of a system's own ways was the fastest. ``size``: how many steps, items or executions a run had."""

    system: str
    workload: str
    kind: str
    measure: str
    unit: str
    runs: int
    min: float
    median: float
    max: float
    clients: int = 0
    size: int = 0
    way: str = ""


@dataclass
class Book:
    """The figures of one run of the benchmarks. ``tell`` gets each as it is made."""

    about: dict[str, Any]
    tell: Callable[[Figure], None] = lambda figure: None
    figures: list[Figure] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def note(self, system: str, workload: str, kind: str, measure: str, unit: str, values: Sequence[float],
             **more: Any) -> None:  # fmt: skip
        lowest, middle, highest = (
            float(f"{one:.4g}") for one in (min(values), statistics.median(values), max(values))
        )
        figure = Figure(system, workload, kind, measure, unit, len(values), lowest, middle, highest, **more)
        self.figures.append(figure)
        self.tell(figure)

    def guarded(self, name: str, work: Callable[[], None]) -> None:
        """A workload that fails is told and hides no other one; the exit code tells of it."""
        try:
            work()
        except Exception as error:
            self.failed[name] = f"{type(error).__name__}: {error}"

    def record(self) -> dict[str, Any]:
        return {"about": self.about, "figures": [brief(one) for one in self.figures]}


def brief(figure: Figure) -> dict[str, Any]:
    """Give a figure as JSON, without the properties that it does not have. A measured zero stays."""
    return {
        name: value
        for name, value in asdict(figure).items()
        if value or name not in ("clients", "size", "way")
    }


def about(postgres: str = "") -> dict[str, Any]:
    """What and where is measured. Call it before anything runs: the load is that of the start."""
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": cores,
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "postgres": postgres,
        "load": round(load, 2),
        "quiet": load <= QUIET_LOAD * cores,
    }


def lines(book: Book, figure: Figure) -> str:
    """A figure as one JSON line."""
    return json.dumps({**brief(figure), **book.about})


def text(figure: Figure) -> str:
    """A figure as a line for people."""
    whose = f"{figure.system:8} {figure.workload:16} {figure.kind:9}"
    clients = f"{figure.clients} client{'s' * (figure.clients > 1)}" if figure.clients else ""
    spread = f"{number(figure.median):>9} {figure.unit:13} ({number(figure.min)} to {number(figure.max)})"
    return f"{whose} {figure.measure:10} {clients:11} {spread}  {figure.way}".rstrip()


def number(value: float) -> str:
    """Three digits that count."""
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    found = info.read_text().partition("model name")[2].partition("\n")[0] if info.exists() else ""
    return found.strip("\t :") or platform.machine()
