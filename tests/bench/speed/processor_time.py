"""Where the processor time of a workload goes: to the engine, the worker processes, the processes of tasks, Postgres, or the server called."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
GROUPS = {
    "engine": "the process of the engine: decisions, commits, starts; without load the workers, too",
    "workers": "worker processes: commands, templates, calls",
    "tasks": "processes of tasks",
    "postgres": "Postgres",
    "called": "the server that `http` steps call",
}
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the list of processes. ``own``, ``ended``: seconds of it, and of its children that ended."""

    name: str
    parent: int
    own: float
    ended: float
    command: str


def processes() -> dict[int, Process]:
    """All processes by id; none where the system has no list of this form (it is that of Linux)."""
    found: dict[int, Process] = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            head, _, rest = (folder / "stat").read_text().rpartition(")")
            command = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue  # it ended meanwhile
        fields = rest.split()
        own, ended = (int(fields[at]) + int(fields[at + 1]) for at in (11, 13))
        name = head.partition("(")[2]
        found[int(folder.name)] = Process(name, int(fields[1]), own / _TICK, ended / _TICK, command)
    return found


def seconds(listed: dict[int, Process], root: int, database: int) -> Counter[str]:
    """Processor time by group. ``root``: the process with the engine; ``database``: the first process of Postgres."""
    used: Counter[str] = Counter()
    for pid, one in listed.items():
        if pid == database or one.parent == database:
            used["postgres"] += one.own + (one.ended if pid == database else 0.0)
        elif pid == root:
            used["engine"] += one.own
        elif _is_below(pid, root, listed):
            if "step_server" in one.command:
                used["called"] += one.own
            elif "worker_process" in one.command:
                used["workers"] += one.own
                used["tasks"] += one.ended
            else:
                used["tasks"] += one.own + one.ended
    return used


def _is_below(pid: int, root: int, listed: dict[int, Process]) -> bool:
    while (one := listed.get(pid)) is not None:
        if one.parent == root:
            return True
        pid = one.parent
    return False


def first_of_postgres(home: Path) -> int:
    """The id of the process that all others of the embedded server are children of."""
    (file,) = (home / "postgres").rglob("postmaster.pid")
    return int(file.read_text().split("\n", 1)[0])
