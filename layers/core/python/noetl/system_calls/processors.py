"""How many processors this process may use.

They are fewer than the machine has in a container with a quota, and with an affinity.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


@cache
def count_processors() -> int:
    """Return how many processors this process may use, at least one."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = min(count, len(os.sched_getaffinity(0)))
    return max(1, math.ceil(min(count, quota(CGROUPS, OWN_CGROUPS))))


def quota(cgroups: Path, own: Path) -> float:
    """Return the processors that the control groups of this process allow; infinity: all.

    ``cgroups``: where they are mounted. ``own``: a file like ``/proc/self/cgroup``. Sources: Linux, admin-guide/cgroup-v2 (``cpu.max``) and
    scheduler/sched-bwc (``cpu.cfs_quota_us``, version 1).
    """
    least = math.inf
    for folder in _folders(cgroups, own):
        with suppress(OSError, ValueError, ZeroDivisionError):
            least = min(least, _allowed(folder))
    return least


def _folders(cgroups: Path, own: Path) -> Iterator[Path]:
    """List the folders of this process's groups and of those around them.

    In a container, the group is often mounted where the path that the process sees for it does not lead: its root.
    """
    try:
        lines = own.read_text().splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        if not controllers:
            root = cgroups
        elif "cpu" in controllers.split(","):
            root = cgroups / controllers
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        for one in (group, *group.parents):
            yield root / one


def _allowed(folder: Path) -> float:
    """Return the quota of one group in processors.

    Raises OSError, ValueError and ZeroDivisionError.
    """
    if (file := folder / "cpu.max").exists():
        allowed, period = file.read_text().split()
        return math.inf if allowed == "max" else int(allowed) / int(period)
    microseconds = int((folder / "cpu.cfs_quota_us").read_text())
    return math.inf if microseconds < 0 else microseconds / int((folder / "cpu.cfs_period_us").read_text())
